import fc from "fast-check";
import {
  history,
  type HistoryEvent,
  renamed,
} from "../support/histories/history.ts";

/**
 * Returns at least this many events of random histories, in the order in which
 * they occurred, all of them of test mode: a key of Stripe's is of one mode.
 */
export function randomEvents(
  least: number,
  { seed, prefix }: { seed: number; prefix: string },
): HistoryEvent[] {
  const events: HistoryEvent[] = [];
  const histories = fc.sample(history, { seed, numRuns: least });
  for (const [i, each] of histories.entries()) {
    if (events.length >= least) break;
    const own = renamed(each, `${prefix}_${i}`).events;
    events.push(...own.map((event) => ({
      ...event,
      values: { ...event.values, livemode: false },
    })));
  }
  // Stable: what happened to one subscription within a second stays in order.
  return events.sort((one, other) => one.created - other.created);
}
