import fc from "fast-check";
import {
  history,
  type HistoryEvent,
  renamed,
  type Values,
} from "../support/histories/history.ts";

/**
 * Returns at least this many events of random histories, in the order in which
 * they occurred. As in one account of Stripe's, all are of test mode, and every
 * subscription has a customer.
 */
export function randomEvents(
  least: number,
  { seed, prefix }: { seed: number; prefix: string },
): HistoryEvent[] {
  const events: HistoryEvent[] = [];
  const histories = fc.sample(history, { seed, numRuns: least });
  for (const [i, each] of histories.entries()) {
    if (events.length >= least) break;
    events.push(...renamed(each, `${prefix}_${i}`).events.map(asOfStripe));
  }
  // Stable: what happened to one subscription within a second stays in order.
  return events.sort((one, other) => one.created - other.created);
}

function asOfStripe(event: HistoryEvent): HistoryEvent {
  function withCustomer<T extends Partial<Values>>(values: T): T {
    const customer = `cus_of_${event.subscription}`;
    return values.customer === null ? { ...values, customer } : values;
  }
  return {
    ...event,
    values: { ...withCustomer(event.values), livemode: false },
    previous: withCustomer(event.previous),
  };
}
