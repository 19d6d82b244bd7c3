import { PROCESSES } from "./processor_time.ts";
import type { LedgerSize } from "./ledger_size.ts";
import type { Measured } from "./measured.ts";
import { ratios } from "./ratios.ts";
import { SUBSCRIPTIONS } from "./requests.ts";
import { SHARE, SLICE_SECONDS, type SoakSlice } from "./soak.ts";
import type { Spread } from "./statistics.ts";
import { CONNECTIONS, ROUNDS, type Throughput } from "./throughput_results.ts";

/** Returns the results of a whole run as a page in Markdown. */
export function resultsPage(
  { date, machine, ...measured }: Measured & {
    readonly date: string;
    readonly machine: string;
  },
): string {
  return [
    "# Benchmark results",
    `${date}, ${machine}. Made by \`deno task bench\`; medians, with the range in brackets.`,
    `![Events per second over ${
      listed(CONNECTIONS)
    } connections](throughput.svg)`,
    resultTables(measured),
  ].join("\n\n");
}

/** Returns the tables of the parts that were measured. */
export function resultTables(measured: Partial<Measured>): string {
  const { throughput, verification, coldStart, ledger, soak } = measured;
  return [
    ...throughput ? endToEnd(throughput) : [],
    "## Ratios of the medians",
    table(
      ["What", "Ratio"],
      ratios(measured).map(([what, times]) => [
        what,
        `${times.toFixed(2)} times`,
      ]),
    ),
    ...verification
      ? [
        "## Verification of a delivery of 3 kB",
        table(
          ["Who", "Microseconds"],
          Object.entries(verification).map((
            [name, time],
          ) => [name, show(time, 1)]),
        ),
      ]
      : [],
    ...coldStart
      ? [
        "## Cold start: process start to the first 200",
        "The first event is one that the receiver ignores, if the table does " +
        "not say that it applies it. A stand-in for the database's API answers " +
        "at once.",
        table(
          ["What", "Deno", "Milliseconds"],
          Object.entries(coldStart).flatMap(([version, times]) =>
            Object.entries(times).map((
              [name, time],
            ) => [name, version, show(time, 1)])
          ),
        ),
      ]
      : [],
    ...ledger ? ledgerSize(ledger) : [],
    ...soak ? soaked(soak) : [],
  ].join("\n\n") + "\n";
}

function endToEnd({ targets, sqlCeilings }: Throughput): string[] {
  return [
    "## End to end",
    "Subscription updates of 3 kB with IDs as Stripe makes them, each a new " +
    "event, signed and verified. Each is measured in " +
    `${ROUNDS} rounds, each in an order of its own, by chance. In a round, ` +
    "PostgREST is first started anew, so that it has no database connections " +
    "from the target before. Then the target gets ten seconds of load over 64 " +
    "connections, because V8 may let go of compiled code while a process is " +
    "idle. After that it is measured " +
    "over each number of connections, one right after the other. Each begins " +
    "with one more second of load, which does not count in events per second, " +
    "p50 and p99. After each round, the database shows that every event was " +
    "applied. The peers run as their packages have them: the edge function " +
    "opens a database connection for each event, the pool is of ten " +
    "connections, and that of `@supabase/stripe-sync-engine` of twenty. None " +
    "of them calls Stripe. A bare PostgREST call is what the receiver makes " +
    "of one event, and carries nothing else. A function that only verifies " +
    "and makes this call is the least that a receiver costs if events come " +
    "one at a time. The rows for ignored events show the cost of this " +
    "receiver without a call; they repeat " +
    `${SUBSCRIPTIONS.toLocaleString("en")} events, and nothing is applied. ` +
    "SQL without rules claims the events of a call and writes what they say, " +
    "in two statements: more than that, the rules of this receiver cannot " +
    "cost. The SQL function alone is straight in Postgres, without HTTP. " +
    "Stolen is the processor time that the host gave to other machines " +
    "meanwhile.",
    table(
      [
        "What",
        "Connections",
        "Events per second",
        "p50, ms",
        "p99, ms",
        "Errors",
        "Generator, cores",
        "Stolen, %",
      ],
      [
        ...targets.map((target) => [
          target.name,
          String(target.connections),
          show(target.perSecond, 0),
          show(target.p50, 2),
          show(target.p99, 1),
          String(target.errors),
          target.generatorCpu.toFixed(2),
          show(percent(target.stolen), 1),
        ]),
        ...Object.entries(sqlCeilings).map((
          [name, perSecond],
        ) => [name, "", show(perSecond, 0), "", "", "", "", ""]),
      ],
    ),
    "## Processor time per event",
    "Of one core, in milliseconds. The gateway is part of the benchmark's own " +
    "process. The load generator is another one, which is not counted.",
    table(
      ["What", "Connections", ...PROCESSES],
      targets.map((target) => [
        target.name,
        String(target.connections),
        ...PROCESSES.map((name) => show(target.processor[name], 2)),
      ]),
    ),
  ];
}

function ledgerSize(ledger: readonly LedgerSize[]): string[] {
  return [
    "## Size of the ledger",
    table(
      [
        "Rows",
        "Event IDs",
        "Apply p50, ms",
        "p99, ms",
        "Bytes per row",
        "WAL per event, bytes",
      ],
      ledger.map(({ ids, ...size }) => [
        size.rows.toLocaleString("en"),
        ids === "stripe" ? "Stripe's" : "random",
        size.p50.toFixed(3),
        size.p99.toFixed(3),
        size.bytesPerRow.toFixed(0),
        size.walPerEvent.toFixed(0),
      ]),
    ),
  ];
}

function soaked(soak: readonly SoakSlice[]): string[] {
  return [
    `## Soak: ${soak.length * SLICE_SECONDS / 60} minutes at ${
      SHARE * 100
    } % of the maximum, in slices of ${SLICE_SECONDS} s`,
    table(
      ["Slice", "Events per second", "p99, ms", "Errors", "Memory, MiB"],
      soak.map((slice, i) => [
        String(i + 1),
        slice.perSecond.toFixed(0),
        slice.p99.toFixed(1),
        String(slice.errors),
        slice.memory.toFixed(0),
      ]),
    ),
  ];
}

function percent({ median, min, max }: Spread): Spread {
  return { median: median * 100, min: min * 100, max: max * 100 };
}

function show({ median, min, max }: Spread, digits: number): string {
  const format = (value: number) =>
    value.toLocaleString("en", {
      minimumFractionDigits: digits,
      maximumFractionDigits: digits,
    });
  return `${format(median)} (${format(min)} to ${format(max)})`;
}

function listed(numbers: readonly number[]): string {
  return `${numbers.slice(0, -1).join(", ")} and ${numbers.at(-1)}`;
}

function table(head: string[], rows: string[][]): string {
  return [head, head.map(() => "---"), ...rows]
    .map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}
