/**
 * Random histories of subscriptions, as Stripe lives them: what happens, the
 * events that Stripe makes of it, and the deliveries that they might arrive as.
 */
import { isDeepStrictEqual as equal } from "node:util";
import fc from "fast-check";
import {
  API_VERSIONS,
  type ApiVersion,
} from "../../../scripts/events/templates.ts";
import { type HistoryEvent, recorded, type Values } from "./model.ts";

/** Events in the order in which they occurred, and as they are delivered. */
interface History {
  readonly events: readonly HistoryEvent[];
  /** Each event at least once, some more often, in any order. */
  readonly deliveries: readonly HistoryEvent[];
}

const period = fc.integer({ min: 1, max: 6 });

function orNull<T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | null> {
  return fc.option(arbitrary, { freq: 2 });
}
const oneOf = (...texts: string[]) => fc.constantFrom(...texts);

const CHANGES = {
  status: oneOf("trialing", "active", "past_due", "unpaid", "paused"),
  plan: oneOf("price_basic", "price_team", "price_scale"),
  period,
  customer: orNull(oneOf("cus_a", "cus_b")),
  /** Null: the price is based on usage. */
  quantity: orNull(fc.integer({ min: 0, max: 4 })),
  addOns: fc.uniqueArray(
    fc.record({
      price: oneOf("price_seats", "price_storage", "price_calls"),
      quantity: orNull(fc.integer({ min: 0, max: 2 })),
    }),
    { selector: ({ price }) => price },
  ),
  /** The period after which it ends. */
  cancelAt: orNull(period),
  cancelAtPeriodEnd: fc.boolean(),
  /** The period after which the trial ends. */
  trialEnd: orNull(period),
  /** Whether a part of the item changed that is not kept. */
  item: fc.boolean(),
};

type Value<T> = T extends fc.Arbitrary<infer V> ? V : never;

/** An update, or a failed payment; an update of nothing that is kept is `{}`. */
type Happening =
  & { readonly [Name in keyof typeof CHANGES]?: Value<typeof CHANGES[Name]> }
  & { readonly invoice?: boolean };

/** Changes nothing that is kept: a payment method, an invoice, metadata. */
const NEUTRAL: Happening = {};
/** Metadata of the item: the whole old item is sent. */
const ITEM: Happening = { item: true };
const FAILED_PAYMENT: Happening = { invoice: true };
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
const burst = fc.array(anything, { minLength: 1, maxLength: 6 });
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

const gap = fc.oneof(
  { weight: 1, arbitrary: fc.constant(0) },
  { weight: 1, arbitrary: fc.constant(1) },
  { weight: 2, arbitrary: fc.integer({ min: 2, max: 100_000 }) },
);

const another = fc.constantFrom(
  "creation" as const,
  "creation without account" as const,
);
const moment = fc.record({
  gap,
  happenings: fc.oneof(
    { weight: 12, arbitrary: burst },
    { weight: 1, arbitrary: another },
  ),
});

const life = fc.record({
  apiVersion: fc.constantFrom(...API_VERSIONS),
  /** Whether it has the customer and the account of the first subscription. */
  isOfFirst: fc.boolean(),
  start: gap,
  creation,
  moments: fc.array(moment, { maxLength: 2 }),
  deletion: fc.option(gap, { nil: undefined }),
  /** Rare, but a provider may do it: events after the deletion. */
  afterlife: fc.oneof(
    { weight: 4, arbitrary: fc.array(moment, { maxLength: 0 }) },
    { weight: 1, arbitrary: fc.array(moment, { maxLength: 1 }) },
  ),
});

type Life = Value<typeof life>;

const EPOCH = 1_760_000_000;
const MONTH = 2_592_000;

/**
 * Lives through one subscription. What the ordering rule leaves open is kept out: a value
 * that changes back within one second does so a second later. So does an event that the
 * rule's ranks (creation, update, deletion) would take for earlier.
 */
function liveThrough(life: Life, index: number): HistoryEvent[] {
  const { apiVersion } = life;
  const owner = life.isOfFirst ? 0 : index;
  const events: HistoryEvent[] = [];
  let created = EPOCH + life.start;
  let values: Values = {
    status: life.creation.status,
    plan: "price_basic",
    periodEnd: endOf(1),
    customer: `cus_${owner}`,
    quantity: 1,
    addOns: [],
    cancelAt: null,
    cancelAtPeriodEnd: false,
    trialEnd: null,
  };
  let valuesThisSecond = [values];

  function happen(
    type: HistoryEvent["type"],
    { previous = {}, namesAccount = true }: {
      previous?: Partial<Values>;
      namesAccount?: boolean;
    } = {},
  ): void {
    events.push({
      id: `${index}_${events.length}`,
      type,
      apiVersion,
      created,
      subscription: String(index),
      account: `acc_${owner}`,
      namesAccount,
      values,
      previous,
    });
  }

  function pass(seconds: number): void {
    if (seconds === 0) return;
    created += seconds;
    valuesThisSecond = [values];
  }

  function take(happening: Happening): void {
    if (happening.invoice) return happen("invoice.payment_failed");
    const { period, cancelAt, trialEnd, item = false, ...changes } = happening;

    const next: Values = {
      ...values,
      ...changes,
      ...(period !== undefined && { periodEnd: endOf(period) }),
      ...(cancelAt !== undefined && { cancelAt: endOf(cancelAt) }),
      ...(trialEnd !== undefined && { trialEnd: endOf(trialEnd) }),
    };

    if (changesBack(next, values, valuesThisSecond)) pass(1);

    const previous = previousValues(values, next, { apiVersion, item });
    values = next;
    valuesThisSecond.push(next);
    happen("customer.subscription.updated", { previous });
  }

  function liveMoment({ gap, happenings }: Value<typeof moment>): void {
    pass(gap);
    if (typeof happenings !== "string") return happenings.forEach(take);
    // Within a second the rule takes a creation for the first event.
    pass(1);
    values = { ...values, status: "active" };
    valuesThisSecond = [values];
    const namesAccount = happenings === "creation";
    happen("customer.subscription.created", { namesAccount });
  }

  happen("customer.subscription.created");
  life.creation.happenings.forEach(take);
  life.moments.forEach(liveMoment);
  if (life.deletion !== undefined) {
    pass(life.deletion);
    happen("customer.subscription.deleted");
    // Within a second the rule takes a deletion for the last event.
    pass(1);
    life.afterlife.forEach(liveMoment);
  }
  return events;
}

/**
 * Returns what `previous_attributes` tell. All old items are in them whole if any part of
 * one changed, and since 2025-03-31.basil the period is such a part.
 */
function previousValues(
  before: Values,
  after: Values,
  { apiVersion, item }: { apiVersion: ApiVersion; item: boolean },
): Partial<Values> {
  const changed = new Set(
    keysOf(before).filter((key) => !equal(before[key], after[key])),
  );
  const periodIsInItem = apiVersion !== "2024-06-20";
  const itemIsSent = item || changed.has("plan") || changed.has("quantity") ||
    changed.has("addOns") || (periodIsInItem && changed.has("periodEnd"));
  if (itemIsSent) changed.add("plan").add("quantity").add("addOns");
  if (itemIsSent && periodIsInItem) changed.add("periodEnd");
  return Object.fromEntries([...changed].map((key) => [key, before[key]]));
}

function changesBack(
  next: Values,
  current: Values,
  seen: readonly Values[],
): boolean {
  const [after, before] = [recorded(next), recorded(current)];
  const earlier = seen.map(recorded);
  return keysOf(after).some((key) =>
    !equal(after[key], before[key]) &&
    earlier.some((held) => equal(held[key], after[key]))
  );
}

function endOf(period: number): number;
function endOf(period: number | null): number | null;
function endOf(period: number | null): number | null {
  return period === null ? null : EPOCH + period * MONTH;
}

function keysOf<T extends object>(value: T): (keyof T)[] {
  return Object.keys(value) as (keyof T)[];
}

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

function births(events: readonly HistoryEvent[]): HistoryEvent[] {
  const lives = Map.groupBy(events, ({ subscription }) => subscription);
  return [...lives.values()].map(([birth]) => birth!);
}

/** Returns a copy with its own IDs, so that runs can share tables. */
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
