import { barChart } from "./chart.ts";
import { PEER_NAMES } from "./peers.ts";
import { CONNECTIONS, overConnections, type Throughput } from "./throughput.ts";

const CEILING = "the SQL function, one event per call";

/** Draws this receiver and its peers, by the number of connections. */
export function throughputChart({ targets, sqlCeilings }: Throughput): string {
  const ceiling = sqlCeilings[CEILING]?.median;
  if (ceiling === undefined) {
    throw new Error(`Cannot draw: no figures of ${CEILING}`);
  }
  const groups = CONNECTIONS.map((connections) => ({
    heading: overConnections(connections),
    bars: ["this receiver", ...PEER_NAMES].flatMap((name) =>
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
      name: `${CEILING}, straight in Postgres`,
      value: ceiling,
    },
  });
}
