/**
 * Random histories of subscriptions, as Stripe lives them, and the deliveries
 * that they might arrive as.
 *
 * @module
 */
import fc from "fast-check";
import { API_VERSIONS } from "../../../scripts/events/templates.ts";
import type { HistoryEvent, Values } from "./model.ts";
import { type Happening, liveThrough } from "./subscription_life.ts";

export type { HistoryEvent, Values } from "./model.ts";

/** Events in the order in which they occurred, and as they are delivered. */
export interface History {
  readonly events: readonly HistoryEvent[];
  /** Each event at least once, some more often, in any order. */
  readonly deliveries: readonly HistoryEvent[];
}

/** Changes nothing that is kept: a payment method, an invoice, metadata. */
const NEUTRAL: Happening = {};
/** An add-on, metadata of the item: the whole old item is sent. */
const ITEM: Happening = { item: true };
const FAILED_PAYMENT: Happening = { invoice: true };

/** Five events each that Stripe makes of one thing, most of them in one second. */
export const BURSTS: Readonly<Record<string, readonly Happening[]>> = {
  "the end of a trial": [
    ITEM,
    { status: "active", period: 2 },
    NEUTRAL,
    ITEM,
    NEUTRAL,
  ],
  "an upgrade that is not paid": [
    { plan: "price_team", period: 2 },
    ITEM,
    { status: "past_due" },
    FAILED_PAYMENT,
    { status: "unpaid" },
  ],
  "five changes of status, plan and period": [
    { status: "active", plan: "price_2", period: 2 },
    { status: "past_due", plan: "price_3", period: 3 },
    { status: "unpaid", plan: "price_4", period: 4 },
    { status: "paused", plan: "price_5", period: 5 },
    { status: "incomplete", plan: "price_6", period: 6 },
  ],
  "five changes of everything else": [
    { quantity: 2, paused: "void", cancelAt: 2, trialEnd: 2, customer: null },
    {
      quantity: null,
      paused: "keep_as_draft",
      cancelAt: 3,
      trialEnd: 3,
      customer: "cus_3",
    },
    {
      quantity: 4,
      paused: "mark_uncollectible",
      cancelAt: 4,
      trialEnd: 4,
      customer: "cus_4",
    },
    { quantity: 5, cancelAt: 5, trialEnd: 5, customer: "cus_5" },
    { quantity: 6, cancelAt: 6, trialEnd: 6, customer: "cus_6" },
  ],
  "seats that are not paid, then none": [
    { quantity: 3 },
    NEUTRAL,
    { status: "past_due" },
    { quantity: null },
    ITEM,
  ],
  "an end that moves with the period, and is taken back": [
    { cancelAtPeriodEnd: true },
    { period: 2 },
    ITEM,
    { cancelAtPeriodEnd: false, cancelAt: 3 },
    { status: "past_due" },
  ],
  "a pause in two ways, resumed, at the end of a trial": [
    { paused: "keep_as_draft", trialEnd: 2 },
    { paused: "void" },
    { status: "active", period: 2 },
    { paused: "mark_uncollectible", quantity: 0 },
    NEUTRAL,
  ],
};

const period = fc.integer({ min: 1, max: 6 });

/** A value, or none. */
function orNull<T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | null> {
  return fc.option(arbitrary, { freq: 2 });
}

const CHANGES = {
  status: fc.constantFrom("trialing", "active", "past_due", "unpaid", "paused"),
  plan: fc.constantFrom("price_basic", "price_team", "price_scale"),
  period,
  customer: orNull(fc.constantFrom("cus_a", "cus_b")),
  quantity: orNull(fc.integer({ min: 0, max: 4 })),
  cancelAt: orNull(period),
  cancelAtPeriodEnd: fc.boolean(),
  trialEnd: orNull(period),
  paused: orNull(
    fc.constantFrom("void", "keep_as_draft", "mark_uncollectible"),
  ),
  livemode: orNull(fc.boolean()),
  item: fc.boolean(),
};

/** One change, or several. */
const anything: fc.Arbitrary<Happening> = fc.oneof(
  { weight: 2, arbitrary: fc.constant(NEUTRAL) },
  { weight: 1, arbitrary: fc.constant(ITEM) },
  { weight: 1, arbitrary: fc.constant(FAILED_PAYMENT) },
  {
    weight: 6,
    arbitrary: fc.oneof(
      ...Object.entries(CHANGES).map(([name, change]) =>
        fc.record<Happening>({ [name]: change })
      ),
    ),
  },
  {
    weight: 6,
    arbitrary: fc.record<Happening>(CHANGES, { requiredKeys: [] }),
  },
);

/** What happens in one second, as a rule. */
const burst: fc.Arbitrary<readonly Happening[]> = fc.oneof(
  { weight: 2, arbitrary: fc.array(anything, { minLength: 1, maxLength: 6 }) },
  { weight: 1, arbitrary: fc.constantFrom(...Object.values(BURSTS)) },
);

const someThings = fc.array(anything, { maxLength: 4 });

/** The second of the creation, by the status in which Stripe creates. */
const creation = fc.oneof(
  fc.record({ status: fc.constant("active"), happenings: someThings }),
  // The record of a creation alone is `active` here, whatever Stripe says, so
  // that an update follows: the tests of reconcile compare with Stripe.
  fc.record({
    status: fc.constantFrom("incomplete", "trialing"),
    happenings: fc
      .tuple(fc.constantFrom(NEUTRAL, { status: "active" }), someThings)
      .map(([first, rest]) => [first, ...rest]),
  }),
);

/** Seconds between bursts. */
const gap = fc.oneof(
  { weight: 1, arbitrary: fc.constant(0) },
  { weight: 1, arbitrary: fc.constant(1) },
  { weight: 2, arbitrary: fc.integer({ min: 2, max: 100_000 }) },
);

const moment = fc.record({
  gap,
  happenings: fc.oneof(
    { weight: 12, arbitrary: burst },
    {
      weight: 1,
      arbitrary: fc.constantFrom(
        "creation" as const,
        "creation without account" as const,
      ),
    },
  ),
});

const life = fc.record({
  apiVersion: fc.constantFrom(...API_VERSIONS),
  isOfFirst: fc.boolean(),
  start: gap,
  creation,
  moments: fc.array(moment, { maxLength: 2 }),
  deletion: fc.option(gap, { nil: undefined }),
  /** Rare, but a provider may do it: events after the deletion. */
  afterlife: fc.oneof(
    { weight: 4, arbitrary: fc.constant([]) },
    { weight: 1, arbitrary: fc.array(moment, { maxLength: 1 }) },
  ),
});

/** Histories of one or two subscriptions. */
export const history: fc.Arbitrary<History> = fc
  .array(life, { minLength: 1, maxLength: 2 })
  .map((lives) => lives.flatMap(liveThrough))
  .chain((events) =>
    fc.record({
      again: fc.subarray(events, { maxLength: Math.ceil(events.length / 4) }),
      // What is delivered before its creation fails and is delivered again: now
      // and then is enough, and shows less of the order.
      isBirthFirst: fc.constantFrom(true, true, true, false),
    }).chain(({ again, isBirthFirst }) => {
      const copies = [...events, ...again];
      return fc.shuffledSubarray(copies, { minLength: copies.length })
        .map((deliveries) => ({
          events,
          deliveries: isBirthFirst
            ? [...births(events), ...deliveries]
            : deliveries,
        }));
    })
  );

/** The first event of each subscription. */
function births(events: readonly HistoryEvent[]): HistoryEvent[] {
  const lives = Map.groupBy(events, ({ subscription }) => subscription);
  return [...lives.values()].map(([birth]) => birth!);
}

/**
 * Returns a copy of a history with its own IDs, so that runs can share tables.
 */
export function renamed(history: History, prefix: string): History {
  function withOwnCustomer<T extends Partial<Values>>(values: T): T {
    const { customer } = values;
    return customer ? { ...values, customer: `${customer}_${prefix}` } : values;
  }
  const events = new Map(
    history.events.map((event) => [event, {
      ...event,
      id: `evt_${prefix}_${event.id}`,
      subscription: `sub_${prefix}_${event.subscription}`,
      values: withOwnCustomer(event.values),
      previous: withOwnCustomer(event.previous),
    }]),
  );
  return {
    events: [...events.values()],
    deliveries: history.deliveries.map((event) => events.get(event)!),
  };
}

/** Returns random histories that a seed determines, with IDs of their own. */
export function sampleHistories(
  count: number,
  { seed, prefix }: { seed: number; prefix: string },
): History[] {
  return fc.sample(history, { seed, numRuns: count })
    .map((each, i) => renamed(each, `${prefix}_${i}`));
}

/** Returns the events of histories, one history after the other. */
export function eventsOf(histories: readonly History[]): HistoryEvent[] {
  return histories.flatMap(({ events }) => events);
}

/** Returns the distinct orders in which items can arrive; some may be equal. */
export function* arrivals<T>(items: readonly T[]): Generator<T[]> {
  if (items.length === 0) yield [];
  for (const item of new Set(items)) {
    const rest = items.toSpliced(items.indexOf(item), 1);
    for (const arrival of arrivals(rest)) yield [item, ...arrival];
  }
}
