import type Stripe from "stripe";
import { DEFAULT_TOLERANCE_SECONDS } from "../../supabase/functions/_shared/billing/config.ts";
import {
  type DeliveryError,
  toDeliveryError,
} from "../../supabase/functions/_shared/billing/errors.ts";
import {
  HANDLED_TYPES,
  type HandledEvent,
  lacksAccountId,
} from "../../supabase/functions/_shared/billing/formats/stripe.ts";
import { parseEvent } from "../../supabase/functions/_shared/billing/parse_event.ts";
import { accountOf, compare, type Comparison, customerOf } from "./compare.ts";
import type { Context } from "./context.ts";
import type { Difference, SubscriptionDifference } from "./differences.ts";
import type { Page } from "./stripe_source.ts";

/** An event that Stripe could not deliver to one of its endpoints. */
export interface MissedEvent {
  readonly event: Stripe.Event;
  /** Null if the event does not name one. */
  readonly subscription: string | null;
  /** As the receiver reads it, or why it refuses it. */
  readonly parsed: HandledEvent | DeliveryError;
}

/** What was found. */
export interface Found {
  readonly differences: readonly Difference[];
  /** The subscriptions that differ, also if that is to be ignored. */
  readonly different: readonly string[];
  /** How many subscriptions Stripe lists. */
  readonly listed: number;
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
  const missed = await missedEvents(context);
  const doubtful = [...listed.different, ...unlisted.different];
  if (doubtful.length + missed.length > 0) {
    await context.wait(SECOND_LOOK_AFTER_MS);
  }
  const again = await compareAll(
    stripe.someSubscriptions(idsOf(doubtful), listed.ids.size),
    context,
  );
  const failures = await tables.openFailures();
  const failed = new Set(failures.map(({ event }) => event));
  const undelivered = (await stillMissed(missed, context))
    .filter(({ event }) => !failed.has(event.id));
  const differences: Difference[] = [
    ...again.different.filter(({ kind }) =>
      kind !== "unmapped" || unmappedSubscriptions === "fail"
    ),
    ...recorded
      .filter((id) => !listed.ids.has(id) && !unlisted.ids.has(id))
      .map((id) => ({ kind: "missing_there" as const, subscription: id })),
    ...undelivered.map(({ event: { id, type }, subscription }) => ({
      kind: "undelivered" as const,
      event: id,
      type,
      subscription,
    })),
    ...failures.map((failure) => ({ kind: "failed" as const, ...failure })),
  ];
  const different = idsOf(again.different);
  return { differences, different, listed: listed.ids.size };
}

async function compareAll(pages: AsyncIterable<Page>, context: Context) {
  const ids = new Set<string>();
  const different: SubscriptionDifference[] = [];
  for await (const page of comparePages(pages, context)) {
    for (const { subscription, difference } of page) {
      ids.add(subscription);
      if (difference !== undefined) different.push(difference);
    }
    context.onProgress(`${ids.size} subscriptions compared`);
    context.signal.throwIfAborted();
  }
  return { ids, different };
}

function idsOf(differences: readonly SubscriptionDifference[]): string[] {
  return differences.map(({ subscription }) => subscription);
}

/**
 * Compares pages of subscriptions with the records, page by page.
 *
 * @param options.asksDatabase Whether `billing.account_of_customer` is asked for
 * those that do not name their account.
 */
export async function* comparePages(
  pages: AsyncIterable<Page>,
  context: Context,
  { asksDatabase = true }: { asksDatabase?: boolean } = {},
): AsyncGenerator<Comparison[]> {
  for await (const { data, askedAtSeconds } of pages) {
    const records = await context.tables.recordsOf(data.map(({ id }) => id));
    const unnamed = data.filter((subscription) =>
      !records.has(subscription.id) &&
      accountOf(subscription, context.accountFrom) === undefined
    );
    const accounts = await context.tables.accountsOf(
      asksDatabase ? unnamed.map(customerOf) : [],
    );
    yield data.map((subscription) =>
      compare(subscription, {
        ...context,
        record: records.get(subscription.id),
        customersAccount: accounts.get(customerOf(subscription)),
        askedAtSeconds,
      })
    );
  }
}

/** Reads the undelivered events that would change the tables and have not. */
export async function missedEvents(context: Context): Promise<MissedEvent[]> {
  const events: MissedEvent[] = [];
  for await (const event of context.stripe.undeliveredEvents(HANDLED_TYPES)) {
    events.push(...readMissed(event));
  }
  return await stillMissed(events, context);
}

/** Returns none if it has no effect, like an invoice without a subscription. */
function readMissed(event: Stripe.Event): MissedEvent[] {
  try {
    const parsed = parseEvent(JSON.stringify(event), {
      nowSeconds: Date.now() / 1000,
      toleranceSeconds: DEFAULT_TOLERANCE_SECONDS,
    });
    if (!parsed.handled) return [];
    const { subscription_id: subscription } = parsed.event;
    return [{ event, subscription, parsed: parsed.event }];
  } catch (thrown) {
    const { type, data: { object } } = event;
    const isOwn = type.startsWith("customer.subscription.") && "id" in object;
    const subscription = isOwn ? `${object.id}` : null;
    return [{ event, subscription, parsed: toDeliveryError(thrown) }];
  }
}

/**
 * Returns the events that are still not applied, and that nobody has resolved
 * by hand. Events that the receiver acknowledges without an effect are not
 * missed; Stripe lists them if another endpoint of the account fails.
 */
async function stillMissed(
  events: readonly MissedEvent[],
  { tables, unmappedSubscriptions }: Context,
): Promise<MissedEvent[]> {
  const settled = await tables.settledEvents(
    events.map(({ event }) => event.id),
  );
  const missed = events.filter(({ event }) => !settled.has(event.id));
  if (unmappedSubscriptions === "fail") return missed;
  const records = await tables.recordsOf(
    missed.map(({ subscription }) => subscription ?? ""),
  );
  return missed.filter(({ event, subscription }) =>
    !lacksAccountId(event) || records.has(subscription ?? "")
  );
}
