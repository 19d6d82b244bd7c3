/**
 * `deno task bench`: all benchmarks, side by side in one run, into
 * `bench/results`. It takes about an hour and wants the machine to itself.
 * With names of parts, it runs only those, and writes nothing.
 */
import { createCommand } from "../scripts/common/create_command.ts";
import {
  downloadForTests,
  EDGE_DENO_VERSION,
} from "../scripts/dev/downloads.ts";
import type { Stack } from "../scripts/local_stack/stack.ts";
import { barChart } from "./chart.ts";
import { coldStartSection, measureColdStart } from "./cold_start.ts";
import { ledgerSection, measureLedgerSizes } from "./ledger_size.ts";
import { describeMachine } from "./measure.ts";
import { withStack } from "./servers.ts";
import { measureSoak, soakSection } from "./soak.ts";
import {
  charted,
  measureThroughput,
  type TargetResult,
  throughputSection,
} from "./throughput.ts";

const RESULTS = "bench/results";

/** What a part measured, as Markdown; throughput also for the chart. */
interface Measured {
  readonly section: string;
  readonly throughput?: readonly TargetResult[];
}

/** In the order in which they run. */
const PARTS: Readonly<
  Record<string, (stack: Stack, folder: string) => Promise<Measured>>
> = {
  coldStart: async () => {
    const section = coldStartSection({
      [Deno.version.deno]: await measureColdStart(Deno.execPath()),
      [EDGE_DENO_VERSION]: await measureColdStart(await downloadForTests()),
    });
    return { section };
  },
  throughput: async (stack, folder) => {
    const throughput = await measureThroughput(stack, folder);
    return { section: throughputSection(throughput), throughput };
  },
  soak: async (stack, folder) => ({
    section: soakSection(await measureSoak(stack, folder)),
  }),
  ledger: async (stack) => ({
    section: ledgerSection(await measureLedgerSizes(stack)),
  }),
};

if (import.meta.main) {
  const names = Deno.args.length > 0 ? Deno.args : Object.keys(PARTS);
  const unknown = names.find((name) => !(name in PARTS));
  if (unknown !== undefined) {
    console.error(
      `There is no part ${unknown}. The parts: ${
        Object.keys(PARTS).join(", ")
      }.`,
    );
    Deno.exit(2);
  }
  const measured = await measure(names);
  if (Deno.args.length > 0) console.log("Not written: not the whole run.");
  else await write(measured);
}

async function measure(names: readonly string[]): Promise<Measured[]> {
  const began = performance.now();
  return await withStack(async (stack, folder) => {
    const measured: Measured[] = [];
    for (const name of names) {
      const minutes = ((performance.now() - began) / 60_000).toFixed(1);
      console.log(`${name} (after ${minutes} minutes)`);
      const part = await PARTS[name]!(stack, folder);
      measured.push(part);
      console.log(`\n${part.section}\n`);
    }
    return measured;
  });
}

async function write(measured: readonly Measured[]): Promise<void> {
  const throughput = measured.flatMap((part) => part.throughput ?? []);
  const date = new Date().toISOString().slice(0, 10);
  const page = [
    "# Benchmark results",
    `Commit ${await headCommit()}, ${date}, ${await describeMachine()}. Made by \`deno task bench\`; medians, with the range in brackets. What follows from it: [docs/scaling.md](../../docs/scaling.md).`,
    "![Events per second, by the number of connections](throughput.svg)",
    ...measured.map(({ section }) => section),
  ];
  await Deno.writeTextFile(`${RESULTS}/README.md`, `${page.join("\n\n")}\n`);
  await Deno.writeTextFile(
    `${RESULTS}/throughput.svg`,
    barChart(charted(throughput), {
      title: "Subscription updates",
      unit: "events per second, over HTTP",
    }),
  );
  await createCommand(Deno.execPath(), {
    args: ["fmt", "--quiet", `${RESULTS}/README.md`],
  }).output();
  console.log(`Written to ${RESULTS}.`);
}

/** Which version was measured. */
async function headCommit(): Promise<string> {
  const { stdout } = await createCommand("git", {
    args: ["rev-parse", "--short", "HEAD"],
  }).output();
  return new TextDecoder().decode(stdout).trim();
}
