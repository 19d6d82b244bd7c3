import type { LedgerSize } from "./ledger_size.ts";
import type { SoakSlice } from "./soak.ts";
import type { Spread } from "./statistics.ts";
import type { TargetResult, Throughput } from "./throughput.ts";

/** Everything that one run measured. */
export interface Results {
  readonly date: string;
  readonly machine: string;
  readonly verification: Record<string, Spread>;
  /** By version of Deno. */
  readonly coldStart: Record<string, Record<string, Spread>>;
  readonly throughput: Throughput;
  readonly ledger: readonly LedgerSize[];
  readonly soak: readonly SoakSlice[];
}

/** The results as Markdown tables. */
export function report(results: Results): string {
  const { throughput, ledger, soak } = results;
  return [
    "# Benchmark results",
    "",
    `${results.date}, ${results.machine}. Made by \`deno task bench\`; medians, with the range in brackets.`,
    "",
    "![Events a second over 64 connections](throughput.svg)",
    "",
    "## End to end",
    "",
    table(
      [
        "What",
        "Connections",
        "Events a second",
        "p50, ms",
        "p99, ms",
        "Errors",
        "Generator, cores",
      ],
      [
        ...throughput.targets.map((target) => [
          target.name,
          String(target.connections),
          show(target.perSecond, 0),
          show(target.p50, 2),
          show(target.p99, 1),
          String(target.errors),
          target.generatorCpu.toFixed(2),
        ]),
        ...Object.entries(throughput.sqlCeilings).map((
          [name, perSecond],
        ) => [name, "", show(perSecond, 0), "", "", "", ""]),
      ],
    ),
    "",
    "## Ratios",
    "",
    table(["What", "Ratio"], ratios(results)),
    "",
    "## Verification of a delivery of 3 kB",
    "",
    table(
      ["Who", "Microseconds"],
      Object.entries(results.verification).map((
        [name, time],
      ) => [name, show(time, 1)]),
    ),
    "",
    "## Cold start: process start to the first 200",
    "",
    table(
      ["What", "Deno", "Milliseconds"],
      Object.entries(results.coldStart).flatMap(([version, times]) =>
        Object.entries(times).map((
          [name, time],
        ) => [name, version, show(time, 1)])
      ),
    ),
    "",
    "## Size of the ledger",
    "",
    table(
      [
        "Rows",
        "Apply p50, ms",
        "p99, ms",
        "Bytes a row",
        "WAL an event, bytes",
      ],
      ledger.map((size) => [
        size.rows.toLocaleString("en"),
        size.p50.toFixed(3),
        size.p99.toFixed(3),
        size.bytesPerRow.toFixed(0),
        size.walPerEvent.toFixed(0),
      ]),
    ),
    "",
    "## Soak: a minute at 80 % of the maximum, in slices of 10 s",
    "",
    table(
      ["Slice", "Events a second", "p99, ms", "Errors", "Memory, MiB"],
      soak.map((slice, i) => [
        String(i + 1),
        slice.perSecond.toFixed(0),
        slice.p99.toFixed(1),
        String(slice.errors),
        slice.memory.toFixed(0),
      ]),
    ),
    "",
  ].join("\n");
}

function ratios(results: Results): string[][] {
  const { targets, sqlCeilings } = results.throughput;
  const find = (name: string, connections: number): TargetResult => {
    const found = targets.find((target) =>
      target.name === name && target.connections === connections
    );
    if (!found) throw new Error(`Cannot report: no figures of ${name}`);
    return found;
  };
  const ours = find("this receiver", 64);
  const peer = find("@supabase/stripe-sync-engine", 64);
  const single = find("this receiver", 1);
  const times = (a: number, b: number) => `${(a / b).toFixed(2)} times`;
  const { verification, coldStart, ledger } = results;
  return [
    [
      "events a second, to @supabase/stripe-sync-engine",
      times(ours.perSecond.median, peer.perSecond.median),
    ],
    [
      "p99, to @supabase/stripe-sync-engine",
      times(ours.p99.median, peer.p99.median),
    ],
    ...Object.entries(sqlCeilings).map(([name, perSecond]) => [
      `events a second, to ${name}`,
      times(ours.perSecond.median, perSecond.median),
    ]),
    [
      "p50 at one connection, to a bare PostgREST call",
      times(single.p50.median, find("bare PostgREST call", 1).p50.median),
    ],
    [
      "p50 at one connection, to the same through the gateway",
      times(
        single.p50.median,
        find("the same through the gateway", 1).p50.median,
      ),
    ],
    ...["one by one", "16 at once"].map((how) => [
      `time of a verification, ${how}, to stripe`,
      times(
        verification[`this receiver, stripe scheme, ${how}`]?.median ?? NaN,
        verification[`stripe, constructEventAsync, ${how}`]?.median ?? NaN,
      ),
    ]),
    ...Object.entries(coldStart).map(([version, started]) => [
      `cold start with Deno ${version}, to a bare server`,
      times(
        started["this receiver"]?.median ?? NaN,
        started["bare server"]?.median ?? NaN,
      ),
    ]),
    [
      "apply p50 at the largest ledger, to the smallest",
      times(ledger.at(-1)?.p50 ?? NaN, ledger[0]?.p50 ?? NaN),
    ],
  ];
}

function show({ median, min, max }: Spread, digits: number): string {
  const format = (value: number) =>
    value.toLocaleString("en", {
      minimumFractionDigits: digits,
      maximumFractionDigits: digits,
    });
  return `${format(median)} (${format(min)} to ${format(max)})`;
}

function table(head: string[], rows: string[][]): string {
  return [head, head.map(() => "---"), ...rows]
    .map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}
