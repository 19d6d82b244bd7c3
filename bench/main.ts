/**
 * `deno task bench`: all benchmarks, side by side in one run, into
 * `bench/results`. It takes about ten minutes and wants the machine to itself.
 *
 * @module
 */
import { barChart } from "./chart.ts";
import { measureColdStart } from "./cold_start.ts";
import { measureLedgerSizes } from "./ledger_size.ts";
import { describeMachine } from "./machine.ts";
import { report, type Results } from "./report.ts";
import { measureSoak } from "./soak.ts";
import { withStack } from "./stack.ts";
import { measureThroughput } from "./throughput.ts";
import { measureVerification } from "./verification.ts";
import { createCommand } from "../scripts/common/create_command.ts";
import {
  downloadForTests,
  EDGE_DENO_VERSION,
} from "../scripts/dev/test/downloads.ts";

const RESULTS = "bench/results";

if (import.meta.main) {
  const results = await measureAll();
  await Deno.mkdir(RESULTS, { recursive: true });
  await Deno.writeTextFile(
    `${RESULTS}/results.json`,
    `${JSON.stringify(results, null, 2)}\n`,
  );
  await Deno.writeTextFile(`${RESULTS}/README.md`, report(results));
  await Deno.writeTextFile(`${RESULTS}/throughput.svg`, chartOf(results));
  await createCommand(Deno.execPath(), {
    args: ["fmt", "--quiet", RESULTS],
  }).output();
  console.log(`\n${report(results)}\nWritten to ${RESULTS}.`);
}

async function measureAll(): Promise<Results> {
  console.log("Verification");
  const verification = await measureVerification();
  console.log("Cold start");
  const coldStart = {
    [Deno.version.deno]: await measureColdStart(Deno.execPath()),
    [EDGE_DENO_VERSION]: await measureColdStart(await downloadForTests()),
  };
  return await withStack(async (stack, folder) => {
    console.log("Throughput");
    const throughput = await measureThroughput(stack, folder);
    console.log("Soak");
    const maximum = throughput.targets[0]?.perSecond.median ?? NaN;
    const soak = await measureSoak(stack, { folder, maximum });
    console.log("Size of the ledger");
    const ledger = await measureLedgerSizes(stack);
    return {
      date: new Date().toISOString().slice(0, 10),
      machine: await describeMachine(),
      verification,
      coldStart,
      throughput,
      ledger,
      soak,
    };
  });
}

function chartOf({ throughput: { targets, sqlCeilings } }: Results): string {
  const bars = targets
    .filter(({ name, connections }) =>
      connections === 64 && name !== "bare server"
    )
    .map(({ name, perSecond: { median, min, max } }) => ({
      name,
      value: median,
      min,
      max,
    }));
  return barChart([
    ...bars,
    ...Object.entries(sqlCeilings).map((
      [name, { median, min, max }],
    ) => ({ name, value: median, min, max })),
  ], {
    title: "Subscription updates over 64 connections",
    unit: "events a second, over HTTP but for the SQL function",
  });
}
