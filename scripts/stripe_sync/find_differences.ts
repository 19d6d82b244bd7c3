import type Stripe from "stripe";
import {
  describeEvent,
  lacksAccountId,
  typesOf,
} from "../../supabase/functions/_shared/billing/events/format.ts";
import { stripe as format } from "../../supabase/functions/_shared/billing/events/stripe.ts";
import type { Context } from "./command.ts";
import { accountOf, compare, type Comparison, customerOf } from "./compare.ts";
import type { Difference } from "./differences.ts";
import type { Page } from "./stripe_source.ts";

export type Found = Awaited<ReturnType<typeof findDifferences>>;

/** A difference that an event in transit causes has disappeared by then. */
const SECOND_LOOK_AFTER_MS = 2_000;

export async function findDifferences(context: Context) {
  const { stripe, tables, unmappedSubscriptions } = context;

  // Read before Stripe is asked, so Stripe has every recorded subscription.
  const recorded = await tables.subscriptionIds();
  const listed = await compareAll(stripe.subscriptions(), context);
  // The list leaves out subscriptions of test clocks, for example.
  const unlisted = await compareAll(
    stripe.someSubscriptions(recorded.filter((id) => !listed.has(id))),
    context,
  );
  const undelivered = await stripe.events({
    // An endpoint has not acknowledged them.
    delivery_success: false,
    types: [...typesOf(format)],
  });

  const compared = new Map([...listed, ...unlisted]);
  // Includes unmapped ones, even if they are ignored below.
  const doubtful = [...compared.keys()].filter((id) => compared.get(id));
  const missed = await missedEvents(undelivered, context);
  if (doubtful.length + missed.length > 0) {
    await context.wait(SECOND_LOOK_AFTER_MS);
  }
  const again = await compareAll(
    stripe.someSubscriptions(doubtful, listed.size),
    context,
  );

  const failures = await tables.openFailures();
  const failed = new Set(failures.map(({ event }) => event));
  const stillMissed = (await missedEvents(missed, context))
    .filter(({ id }) => !failed.has(id));

  const differences: Difference[] = [];
  for (const difference of again.values()) {
    const isIgnored = difference?.kind === "unmapped" &&
      unmappedSubscriptions === "ignore";
    if (difference && !isIgnored) differences.push(difference);
  }
  for (const subscription of recorded) {
    if (compared.has(subscription)) continue;
    differences.push({ kind: "missing_there", subscription });
  }
  const described = stillMissed.map((event) => describeMissed(event, tables));
  differences.push(...await Promise.all(described));
  for (const failure of failures) {
    differences.push({ kind: "failed", ...failure });
  }

  return { differences, doubtful, listed: listed.size, undelivered };
}

async function compareAll(
  pages: AsyncIterable<Page>,
  context: Context,
) {
  const found = new Map<string, Difference | undefined>();
  for await (const page of pages) {
    for (const compared of await comparePage(page, context)) {
      found.set(compared.subscription, compared.difference);
    }
  }
  return found;
}

export async function comparePage(
  { data, askedAtSeconds }: Page,
  context: Context,
): Promise<Comparison[]> {
  const { tables, accountFrom } = context;
  const records = await tables.recordsOf(data.map(({ id }) => id));
  const missing = data.filter(({ id }) => !records.has(id));
  const erased = await tables.erasedOf(
    missing.map((subscription) => ({
      subscription_id: subscription.id,
      account_id: accountOf(subscription, accountFrom) ?? null,
      customer_id: customerOf(subscription),
    })),
  );

  return await Promise.all(data.map((subscription) => {
    const record = records.get(subscription.id);
    const isErased = erased.has(subscription.id);
    return compare(
      subscription,
      { ...context, record, isErased, askedAtSeconds },
    );
  }));
}

/** Returns the events that would change the tables, and were not applied or resolved. */
export async function missedEvents(
  undelivered: readonly Stripe.Event[],
  { tables, unmappedSubscriptions }: Context,
): Promise<Stripe.Event[]> {
  const events = undelivered.filter((event) => subscriptionOf(event));
  const settled = await tables.settledEvents(events.map(({ id }) => id));
  const missed = events.filter(({ id }) => !settled.has(id));
  if (unmappedSubscriptions === "fail") return missed;

  const records = await tables.recordsOf(missed.map(subscriptionOf));
  return missed.filter((event) =>
    !lacksAccountId(event, format) || records.has(subscriptionOf(event))
  );
}

async function describeMissed(
  event: Stripe.Event,
  tables: Context["tables"],
): Promise<Difference> {
  const {
    subscription_id = "",
    customer_id = null,
    account_id = null,
  } = describeEvent(event, format);
  const owner = { subscription_id, customer_id, account_id };
  const erased = await tables.erasedOf([owner]);
  return {
    kind: erased.size > 0 ? "erased" : "undelivered",
    event: event.id,
    type: event.type,
    subscription: subscription_id,
  };
}

/** Returns the subscription's ID; an empty text for a one-off invoice. */
function subscriptionOf(event: Stripe.Event): string {
  return describeEvent(event, format).subscription_id ?? "";
}
