import fc from "fast-check";
import {
  history,
  type HistoryEvent,
  renamed,
} from "../support/histories/history.ts";

/**
 * Returns at least this many events of random histories, in the order in which
 * they occurred.
 */
export function randomEvents(
  least: number,
  { seed, prefix }: { seed: number; prefix: string },
): HistoryEvent[] {
  const events: HistoryEvent[] = [];
  const histories = fc.sample(history, { seed, numRuns: least });
  for (const [i, each] of histories.entries()) {
    if (events.length >= least) break;
    events.push(...renamed(each, `${prefix}_${i}`).events);
  }
  // Stable: what happened to one subscription within a second stays in order.
  return events.sort((one, other) => one.created - other.created);
}
