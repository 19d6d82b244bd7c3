import { barChart } from "./chart.ts";
import { ONE_PER_CALL, RECEIVER } from "./names.ts";
import { PEER_NAMES } from "./peers.ts";
import {
  CONNECTIONS,
  overConnections,
  type Throughput,
} from "./throughput_results.ts";

/** Draws this receiver and its peers, by the number of connections. */
export function throughputChart({ targets, sqlCeilings }: Throughput): string {
  const ceiling = sqlCeilings[ONE_PER_CALL]?.median;
  if (ceiling === undefined) {
    throw new Error(`Cannot draw: no figures of ${ONE_PER_CALL}`);
  }
  const groups = CONNECTIONS.map((connections) => ({
    heading: overConnections(connections),
    bars: [RECEIVER, ...PEER_NAMES].flatMap((name) =>
      targets
        .filter((target) =>
          target.name === name && target.connections === connections
        )
        .map(({ perSecond: { median, min, max } }) => ({
          name,
          value: median,
          min,
          max,
        }))
    ),
  }));
  return barChart(groups, {
    title: "Subscription updates",
    unit: "events per second, over HTTP",
    ceiling: {
      name: `${ONE_PER_CALL}, straight in Postgres`,
      value: ceiling,
    },
  });
}
