/**
 * `deno task bench`: all benchmarks, side by side in one run, into
 * `bench/results`. It takes about an hour and wants the machine to itself.
 * With names of parts, it runs only those, and writes nothing.
 *
 * @module
 */
import { measureColdStart } from "./cold_start.ts";
import { measureLedgerSizes } from "./ledger_size.ts";
import { describeMachine } from "./machine.ts";
import type { Measured } from "./measured.ts";
import { resultsPage, resultTables } from "./report.ts";
import { measureSoak } from "./soak.ts";
import { withStack } from "./stack.ts";
import { measureThroughput } from "./throughput.ts";
import { throughputChart } from "./throughput_chart.ts";
import { measureVerification } from "./verification.ts";
import { createCommand } from "../scripts/common/create_command.ts";
import {
  downloadForTests,
  EDGE_DENO_VERSION,
} from "../scripts/dev/downloads.ts";
import type { Stack } from "../scripts/local_stack/stack.ts";

const RESULTS = "bench/results";

/** What a part may use. */
interface Place {
  readonly stack: Stack;
  readonly folder: string;
  /** What was measured before. */
  readonly measured: Partial<Measured>;
}

/** In the order in which they run. */
const PARTS: {
  [Name in keyof Measured]: (place: Place) => Promise<Measured[Name]>;
} = {
  verification: measureVerification,
  coldStart: async () => ({
    [Deno.version.deno]: await measureColdStart(Deno.execPath()),
    [EDGE_DENO_VERSION]: await measureColdStart(await downloadForTests()),
  }),
  throughput: ({ stack, folder }) => measureThroughput(stack, folder),
  soak: ({ stack, folder, measured }) =>
    measureSoak(stack, {
      folder,
      maximum: measured.throughput?.targets[0]?.perSecond.median,
    }),
  ledger: ({ stack }) => measureLedgerSizes(stack),
};

const NAMES = Object.keys(PARTS) as (keyof Measured)[];

if (import.meta.main) {
  const unknown = Deno.args.find((arg) => !(NAMES as string[]).includes(arg));
  if (unknown !== undefined) {
    console.error(
      `There is no part ${unknown}. The parts: ${NAMES.join(", ")}.`,
    );
    Deno.exit(2);
  }
  const measured = await measure(
    NAMES.filter((name) => Deno.args.length === 0 || Deno.args.includes(name)),
  );
  if (Deno.args.length > 0) console.log("Not written: not the whole run.");
  else await write(measured as Measured);
}

async function measure(
  names: readonly (keyof Measured)[],
): Promise<Partial<Measured>> {
  const began = performance.now();
  return await withStack(async (stack, folder) => {
    let measured: Partial<Measured> = {};
    for (const name of names) {
      const minutes = ((performance.now() - began) / 60_000).toFixed(1);
      console.log(`${name} (after ${minutes} minutes)`);
      const part = await PARTS[name]({ stack, folder, measured });
      measured = { ...measured, [name]: part };
      console.log(`\n${resultTables({ [name]: part })}`);
    }
    return measured;
  });
}

async function write(measured: Measured): Promise<void> {
  const results = {
    date: new Date().toISOString().slice(0, 10),
    machine: await describeMachine(),
    ...measured,
  };
  await Deno.mkdir(RESULTS, { recursive: true });
  await Deno.writeTextFile(
    `${RESULTS}/results.json`,
    `${JSON.stringify(results, null, 2)}\n`,
  );
  await Deno.writeTextFile(`${RESULTS}/README.md`, resultsPage(results));
  await Deno.writeTextFile(
    `${RESULTS}/throughput.svg`,
    throughputChart(results.throughput),
  );
  await createCommand(Deno.execPath(), {
    args: ["fmt", "--quiet", RESULTS],
  }).output();
  console.log(`Written to ${RESULTS}.`);
}
