/**
 * Random histories of subscriptions, as Stripe lives them, and the deliveries
 * that they might arrive as.
 *
 * @module
 */
import fc from "fast-check";
import { API_VERSIONS } from "../../../scripts/events/templates.ts";
import type { HistoryEvent, Values } from "./history_event.ts";
import { type Happening, liveThrough } from "./subscription_life.ts";

export type { HistoryEvent, Values } from "./history_event.ts";

/** Events in the order in which they occurred, and as they are delivered. */
export interface History {
  readonly events: readonly HistoryEvent[];
  /** Each event at least once, some more often, in any order. */
  readonly deliveries: readonly HistoryEvent[];
}

const STATUSES = ["trialing", "active", "past_due", "unpaid", "paused"];
const PLANS = ["price_basic", "price_team", "price_scale"];

const PAUSES = ["void", "keep_as_draft", "mark_uncollectible"];

/** Changes nothing that is kept: a payment method, an invoice, metadata. */
const NEUTRAL: Happening = {};
/** An add-on, metadata of the item: the whole old item is sent. */
const ITEM: Happening = { item: true };
const FAILED_PAYMENT: Happening = { invoice: true };

const plan = fc.constantFrom(...PLANS);
const period = fc.integer({ min: 1, max: 6 });

/** A value, or none. */
function orNull<T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | null> {
  return fc.option(arbitrary, { freq: 2 });
}

/** What is reported beside status, plan and period: one of it, or several. */
const report: fc.Arbitrary<Happening> = fc.oneof(
  fc.record({ quantity: orNull(fc.integer({ min: 0, max: 4 })) }),
  fc.record({ paused: orNull(fc.constantFrom(...PAUSES)) }),
  fc.record({ cancelAtPeriodEnd: fc.boolean() }),
  fc.record({
    cancelAtPeriodEnd: fc.boolean(),
    cancelAt: orNull(period),
  }),
  fc.record({ trialEnd: orNull(period) }),
  fc.record({ customer: orNull(fc.constantFrom("cus_a", "cus_b")) }),
  fc.record({ livemode: orNull(fc.boolean()) }),
  fc.record({
    status: fc.constantFrom(...STATUSES),
    period,
    quantity: orNull(fc.integer({ min: 0, max: 4 })),
    cancelAtPeriodEnd: fc.boolean(),
    cancelAt: orNull(period),
    trialEnd: orNull(period),
    paused: orNull(fc.constantFrom(...PAUSES)),
  }, { requiredKeys: [] }),
);

const anything: fc.Arbitrary<Happening> = fc.oneof(
  { weight: 2, arbitrary: fc.constant(NEUTRAL) },
  { weight: 1, arbitrary: fc.constant(ITEM) },
  { weight: 1, arbitrary: fc.constant(FAILED_PAYMENT) },
  {
    weight: 6,
    arbitrary: fc.record({
      status: fc.constantFrom(...STATUSES),
      plan,
      period,
      item: fc.boolean(),
    }, { requiredKeys: [] }),
  },
  { weight: 6, arbitrary: report },
);

/** What Stripe makes several events of, most of them in one second. */
const burst: fc.Arbitrary<readonly Happening[]> = fc.oneof(
  { weight: 3, arbitrary: fc.array(anything, { minLength: 1, maxLength: 6 }) },
  // The trial ends, and the first payment goes through or fails.
  {
    weight: 1,
    arbitrary: period.map((period) => [
      { status: "active", period, trialEnd: period },
      NEUTRAL,
    ]),
  },
  {
    weight: 1,
    arbitrary: period.map((period) => [
      { period },
      { status: "past_due" },
      FAILED_PAYMENT,
      NEUTRAL,
    ]),
  },
  // The renewal, and the end of attempts to collect.
  { weight: 1, arbitrary: period.map((period) => [{ period }, NEUTRAL]) },
  {
    weight: 1,
    arbitrary: fc.constant([FAILED_PAYMENT, { status: "unpaid" }, NEUTRAL]),
  },
  // Another plan or more seats, and the payment for it fails.
  {
    weight: 1,
    arbitrary: fc.record({ plan, period }, { requiredKeys: ["plan"] })
      .map((upgrade) => [
        upgrade,
        NEUTRAL,
        { status: "past_due" },
        FAILED_PAYMENT,
      ]),
  },
  { weight: 1, arbitrary: fc.constant([ITEM, { status: "past_due" }]) },
  // Seats, and the payment for them. Paused, in another way, and resumed.
  {
    weight: 1,
    arbitrary: fc.constant([
      { quantity: 3 },
      NEUTRAL,
      { status: "past_due" },
      { quantity: 2 },
    ]),
  },
  {
    weight: 1,
    arbitrary: fc.constant([
      { paused: "keep_as_draft" },
      { paused: "void" },
      { quantity: 0 },
      { paused: null },
    ]),
  },
  // It is going to be canceled, and the period changes under it.
  {
    weight: 1,
    arbitrary: period.map((period) => [
      { cancelAtPeriodEnd: true },
      { period },
      { cancelAtPeriodEnd: false, cancelAt: 3 },
      NEUTRAL,
    ]),
  },
);

/** The second of the creation, by the status in which Stripe creates. */
const creation = fc.oneof(
  fc.record({
    status: fc.constant("active"),
    happenings: fc.array(anything, { maxLength: 3 }),
  }),
  // The record of a creation alone is `active` here, whatever Stripe says, so
  // that an update follows: the tests of reconcile compare with Stripe.
  fc.record({
    status: fc.constant("incomplete"),
    happenings: fc.constantFrom<readonly Happening[]>(
      [NEUTRAL, { status: "active" }, NEUTRAL],
      [{ status: "active" }],
      [NEUTRAL, { status: "active" }, NEUTRAL, ITEM, { plan: "price_team" }],
    ),
  }),
  fc.record({
    status: fc.constant("trialing"),
    happenings: fc.constantFrom<readonly Happening[]>(
      [NEUTRAL],
      [NEUTRAL, ITEM],
      [{ status: "active", period: 2 }, NEUTRAL],
    ),
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

/** How often an event is delivered. */
const times = fc.oneof(
  { weight: 5, arbitrary: fc.constant(1) },
  { weight: 1, arbitrary: fc.constant(2) },
);

/** Histories of one or two subscriptions. */
export const history: fc.Arbitrary<History> = fc
  .array(life, { minLength: 1, maxLength: 2 })
  .map((lives) => lives.flatMap(liveThrough))
  .chain((events) =>
    fc.array(times, { minLength: events.length, maxLength: events.length })
      .map((times) => events.flatMap((event, i) => Array(times[i]).fill(event)))
      .chain((copies) =>
        fc.record({
          deliveries: fc.shuffledSubarray<HistoryEvent>(copies, {
            minLength: copies.length,
          }),
          // What is delivered before its creation fails and is delivered
          // again: now and then is enough, and shows less of the order.
          isBirthFirst: fc.oneof(
            { weight: 3, arbitrary: fc.constant(true) },
            { weight: 1, arbitrary: fc.constant(false) },
          ),
        })
      )
      .map(({ deliveries, isBirthFirst }) => ({
        events,
        deliveries: isBirthFirst ? birthFirst(events, deliveries) : deliveries,
      }))
  );

function birthFirst(
  events: readonly HistoryEvent[],
  deliveries: readonly HistoryEvent[],
): HistoryEvent[] {
  const births = new Set(
    Map.groupBy(events, ({ subscription }) => subscription).values()
      .map(([birth]) => birth),
  );
  return [
    ...deliveries.filter((event) => births.has(event)),
    ...deliveries.filter((event) => !births.has(event)),
  ];
}

/**
 * Returns a copy of a history with its own IDs, so that runs can share tables.
 */
export function renamed(history: History, prefix: string): History {
  function withOwnCustomer<T extends Partial<Values>>(values: T): T {
    const { customer } = values;
    return customer ? { ...values, customer: `${customer}_${prefix}` } : values;
  }
  const rename = (event: HistoryEvent): HistoryEvent => ({
    ...event,
    id: `evt_${prefix}_${event.id}`,
    subscription: `sub_${prefix}_${event.subscription}`,
    values: withOwnCustomer(event.values),
    previous: withOwnCustomer(event.previous),
  });
  return {
    events: history.events.map(rename),
    deliveries: history.deliveries.map(rename),
  };
}
