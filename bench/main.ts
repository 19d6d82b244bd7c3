/** `deno task bench`: measures parts of this project, and prints the results. */
import { abortOnEnd } from "../scripts/common/abort_on_end.ts";
import { commandLine, reportEnd } from "../scripts/common/cli.ts";
import { oneOf } from "../scripts/common/option_values.ts";
import type { Stack } from "../scripts/local_stack/stack.ts";
import { coldStart } from "./cold_start.ts";
import { isolates } from "./isolates.ts";
import { renewals, soak } from "./long_runs.ts";
import type { Options } from "./measure.ts";
import { ending, TARGETS, withStack } from "./servers.ts";
import { growth, sql } from "./sql.ts";
import { parts, PEERS, throughput } from "./throughput.ts";

/** The functions that measure a part and return its results as Markdown. */
const PARTS: Readonly<
  Record<string, (stack: Stack, options: Options) => Promise<string>>
> = { throughput, parts, isolates, renewals, growth, sql, coldStart, soak };

if (import.meta.main) {
  await abortOnEnd(ending, Deno.env.toObject());
  Deno.exit(await run().then(() => 0, reportEnd));
}

async function run(): Promise<void> {
  const { values, operands } = commandLine({
    usage: "bench [parts]",
    summary: "Measures this project. All parts, the default, take two hours.",
    options: {
      "--rounds N": "how often to measure (default: 5); results are medians",
      "--seconds N":
        "the length of a load (default: 5), after a warm-up of 2 N",
      "--connections N,N": "for throughput and parts (default: 64,16,1)",
      "--peers NAME,NAME": `for throughput (default: ${PEERS})`,
      "--chart FILE": "where to write the chart of throughput, as SVG",
      "--scale N": "for growth, renewals and soak: 0.1 for a tenth of the size",
      "--older FOLDER": "for sql: a clone of an older version, to compare with",
    },
    details: `Parts: ${Object.keys(PARTS).join(", ")}`,
  })(Deno.args);

  const options: Options = {
    rounds: Number(values.rounds ?? 5),
    seconds: Number(values.seconds ?? 5),
    connections: (values.connections ?? "64,16,1").split(",").map(Number),
    peers: values.peers?.split(",") ?? PEERS,
    chart: values.chart,
    scale: Number(values.scale ?? 1),
    older: values.older && await Deno.realPath(values.older),
  };

  const names = operands.length > 0 ? operands : Object.keys(PARTS);
  for (const value of names) oneOf(Object.keys(PARTS), { value, what: "part" });
  for (const value of options.peers) {
    oneOf(Object.keys(TARGETS), { value, what: "peer" });
  }

  for (const name of names) {
    console.log(`\n${name}, at ${new Date().toTimeString().slice(0, 8)}`);
    // Each part gets a new stack: rows that one leaves would slow down the next.
    console.log(await withStack((stack) => PARTS[name]!(stack, options)));
  }
}
