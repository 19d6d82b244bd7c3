import type { LedgerSize } from "./ledger_size.ts";
import type { Measured } from "./measured.ts";
import {
  BARE_CALL,
  BARE_SERVER,
  FIRST_APPLIED,
  GATEWAY,
  LEAST,
  LEAST_SQL,
  RANDOM_IDS,
  RECEIVER,
} from "./names.ts";
import { PEER_NAMES } from "./peers.ts";
import { memoryGrowth } from "./soak.ts";
import type { Spread } from "./statistics.ts";
import {
  CONNECTIONS,
  MOST_CONNECTIONS,
  overConnections,
  type TargetResult,
  type Throughput,
} from "./throughput_results.ts";
import { AT_ONCE, OF_STRIPE, OWN } from "./verification.ts";

const OVER_MOST = `over ${overConnections(MOST_CONNECTIONS)}`;
const OVER_ONE = `over ${overConnections(1)}`;

/** What is compared, and how many times as much it is. */
export type Ratio = readonly [what: string, times: number];

/** Returns the ratios of the parts that were measured. */
export function ratios(measured: Partial<Measured>): Ratio[] {
  const { throughput, verification, coldStart, ledger, soak } = measured;
  return [
    ...throughput ? endToEnd(throughput) : [],
    ...verification ? verifications(verification) : [],
    ...coldStart ? coldStarts(coldStart) : [],
    ...ledger ? ledgerSizes(ledger) : [],
    ...soak ? soaked(memoryGrowth(soak)) : [],
  ];
}

function endToEnd({ targets, sqlCeilings }: Throughput): Ratio[] {
  function find(name: string, connections: number): TargetResult {
    const found = targets.find((target) =>
      target.name === name && target.connections === connections
    );
    if (!found) throw new Error(`Cannot report: no figures of ${name}`);
    return found;
  }
  function peers(connections: number): TargetResult[] {
    return PEER_NAMES.map((name) => find(name, connections));
  }
  const ours = find(RECEIVER, MOST_CONNECTIONS);
  const single = find(RECEIVER, 1);
  function toFastest(name: string): Ratio[] {
    return CONNECTIONS.map((connections) => {
      const [peer] = peers(connections)
        .sort((a, b) => b.perSecond.median - a.perSecond.median);
      return [
        `events per second of ${name} over ${
          overConnections(connections)
        }, to the fastest peer (${peer?.name})`,
        times(find(name, connections).perSecond, peer?.perSecond),
      ];
    });
  }
  const [leastP99] = peers(MOST_CONNECTIONS)
    .sort((a, b) => a.p99.median - b.p99.median);
  const p99s = [RECEIVER, LEAST_SQL].map((name): Ratio => [
    `p99 of ${name} ${OVER_MOST}, to the peer with the lowest (${leastP99?.name})`,
    times(find(name, MOST_CONNECTIONS).p99, leastP99?.p99),
  ]);
  return [
    ...toFastest(RECEIVER),
    ...toFastest(LEAST_SQL),
    ...p99s,
    ...Object.entries(sqlCeilings).map(([name, perSecond]): Ratio => [
      `events per second ${OVER_MOST}, to ${name}`,
      times(ours.perSecond, perSecond),
    ]),
    ...[BARE_CALL, GATEWAY, LEAST].map((name): Ratio => [
      `p50 ${OVER_ONE}, to ${name}`,
      times(single.p50, find(name, 1).p50),
    ]),
    [
      `p50 ${OVER_ONE} of a function that only verifies, to the call through the gateway`,
      times(find(LEAST, 1).p50, find(GATEWAY, 1).p50),
    ],
    [
      `events per second ${OVER_MOST}, random event IDs to Stripe's`,
      times(find(RANDOM_IDS, MOST_CONNECTIONS).perSecond, ours.perSecond),
    ],
  ];
}

function verifications(spreads: Measured["verification"]): Ratio[] {
  return Object.keys(AT_ONCE).map((how) => [
    `time of a verification, ${how}, to stripe`,
    times(
      spreads[`${OWN}, ${how}`],
      spreads[`${OF_STRIPE}, ${how}`],
    ),
  ]);
}

function coldStarts(byVersion: Measured["coldStart"]): Ratio[] {
  return Object.entries(byVersion).flatMap(([version, started]) =>
    [RECEIVER, FIRST_APPLIED].map((name): Ratio => [
      `cold start with Deno ${version}: ${name}, to a bare server`,
      times(started[name], started[BARE_SERVER]),
    ])
  );
}

function ledgerSizes(rows: readonly LedgerSize[]): Ratio[] {
  const kinds = Map.groupBy(rows, ({ ids }) => ids);
  return [...kinds].map(([ids, sizes]) => [
    `apply p50 at the largest ledger, to the smallest, ${
      ids === "stripe" ? "Stripe's" : "random"
    } IDs`,
    (sizes.at(-1)?.p50 ?? NaN) / (sizes[0]?.p50 ?? NaN),
  ]);
}

function soaked(growth: number): Ratio[] {
  return [["memory, second half of the soak to the first", growth]];
}

function times(a: Spread | undefined, b: Spread | undefined): number {
  return (a?.median ?? NaN) / (b?.median ?? NaN);
}
