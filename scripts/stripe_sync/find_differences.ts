import type Stripe from "stripe";
import {
  describeEvent,
  HANDLED_TYPES,
  lacksAccountId,
} from "../../supabase/functions/_shared/billing/formats/stripe.ts";
import type { Context } from "./command.ts";
import { accountOf, compare, type Comparison, customerOf } from "./compare.ts";
import type { Difference } from "./differences.ts";
import type { Page } from "./stripe_source.ts";

/** What was found. */
export interface Found {
  readonly differences: readonly Difference[];
  /** The subscriptions that differ, also if that is to be ignored. */
  readonly different: readonly string[];
  /** How many subscriptions Stripe lists. */
  readonly listed: number;
  /** The events that Stripe could not deliver to one of its endpoints. */
  readonly undelivered: readonly Stripe.Event[];
}

/**
 * An event on its way makes a difference that goes away by itself. So what
 * differs is compared again after this time.
 */
const SECOND_LOOK_AFTER_MS = 2_000;

/** Compares Stripe's subscriptions and events with the tables. */
export async function findDifferences(context: Context): Promise<Found> {
  const { stripe, tables, unmappedSubscriptions } = context;
  // Read before Stripe is asked: Stripe has whatever is recorded by now.
  const recorded = await tables.subscriptionIds();
  const listed = await compareAll(stripe.subscriptions(), context);
  // The list leaves out subscriptions of test clocks, for example.
  const unlisted = await compareAll(
    stripe.someSubscriptions(recorded.filter((id) => !listed.ids.has(id))),
    context,
  );
  const undelivered = await stripe.undeliveredEvents(HANDLED_TYPES);
  const doubtful = [...listed.different.keys(), ...unlisted.different.keys()];
  const missed = await missedEvents(undelivered, context);
  if (doubtful.length + missed.length > 0) {
    await context.wait(SECOND_LOOK_AFTER_MS);
  }
  const again = await compareAll(
    stripe.someSubscriptions(doubtful, listed.ids.size),
    context,
  );
  const failures = await tables.openFailures();
  const failed = new Set(failures.map(({ event }) => event));
  const stillMissed = (await missedEvents(missed, context))
    .filter(({ id }) => !failed.has(id));
  const differences: Difference[] = [
    ...[...again.different.values()].filter(({ kind }) =>
      kind !== "unmapped" || unmappedSubscriptions === "fail"
    ),
    ...recorded
      .filter((id) => !listed.ids.has(id) && !unlisted.ids.has(id))
      .map((id) => ({ kind: "missing_there" as const, subscription: id })),
    ...stillMissed.map((event) => ({
      kind: "undelivered" as const,
      event: event.id,
      type: event.type,
      subscription: subscriptionOf(event) ?? null,
    })),
    ...failures.map((failure) => ({ kind: "failed" as const, ...failure })),
  ];
  const different = [...again.different.keys()];
  return { differences, different, listed: listed.ids.size, undelivered };
}

async function compareAll(pages: AsyncIterable<Page>, context: Context) {
  const ids = new Set<string>();
  const different = new Map<string, Difference>();
  for await (const page of pages) {
    for (
      const { subscription, difference } of await comparePage(page, context)
    ) {
      ids.add(subscription);
      if (difference) different.set(subscription, difference);
    }
  }
  return { ids, different };
}

/** Compares subscriptions with their records. */
export async function comparePage(
  { data, askedAtSeconds }: Page,
  context: Context,
): Promise<Comparison[]> {
  const records = await context.tables.recordsOf(data.map(({ id }) => id));
  return await Promise.all(data.map(async (subscription) => {
    const record = records.get(subscription.id);
    const isNamed = record || accountOf(subscription, context.accountFrom);
    const customersAccount = isNamed
      ? undefined
      : await context.tables.accountOfCustomer(customerOf(subscription));
    const options = { ...context, record, customersAccount, askedAtSeconds };
    return compare(subscription, options);
  }));
}

/**
 * Returns the undelivered events that would change the tables and have not, and
 * that nobody has resolved by hand. Events that the receiver acknowledges without
 * an effect are not missed; Stripe lists them if another endpoint of the account
 * fails.
 */
export async function missedEvents(
  undelivered: readonly Stripe.Event[],
  { tables, unmappedSubscriptions }: Context,
): Promise<Stripe.Event[]> {
  const events = undelivered.filter((event) => subscriptionOf(event));
  const settled = await tables.settledEvents(events.map(({ id }) => id));
  const missed = events.filter(({ id }) => !settled.has(id));
  if (unmappedSubscriptions === "fail") return missed;
  const records = await tables.recordsOf(
    missed.map((event) => subscriptionOf(event) ?? ""),
  );
  return missed.filter((event) =>
    !lacksAccountId(event) || records.has(subscriptionOf(event) ?? "")
  );
}

/** Returns nothing for a one-off invoice. */
function subscriptionOf(event: Stripe.Event): string | undefined {
  return describeEvent(event).subscription_id;
}
