/**
 * Random histories of subscriptions, as a provider would live them, and the
 * deliveries that they might arrive as.
 *
 * @module
 */
import fc from "fast-check";

/** The values that an update can change. */
export interface Values {
  readonly status: string;
  readonly plan: string;
  /** Unix seconds. */
  readonly periodEnd: number;
}

/** One event of a history, with all that a provider knows when it happens. */
export interface HistoryEvent {
  readonly id: string;
  readonly type:
    | "customer.subscription.created"
    | "customer.subscription.updated"
    | "customer.subscription.deleted"
    | "invoice.payment_failed";
  /** Unix seconds. */
  readonly created: number;
  readonly subscription: string;
  readonly account: string;
  readonly values: Values;
  /** The values that an update replaced. */
  readonly previous: Partial<Values>;
}

/** Events in the order in which they occurred, and as they are delivered. */
export interface History {
  readonly events: readonly HistoryEvent[];
  /** Each event at least once, some more often, in any order. */
  readonly deliveries: readonly HistoryEvent[];
}

type Step = {
  readonly gap: number;
  readonly kind: "update" | "payment_failed" | "creation";
  readonly changes: {
    readonly status?: string | undefined;
    readonly plan?: string | undefined;
    readonly period?: number | undefined;
  };
};

type Life = {
  readonly start: number;
  readonly steps: readonly Step[];
  readonly deletion: number | undefined;
  /** Rare, but a provider may do it: events after the deletion. */
  readonly afterlife: readonly Step[];
};

const EPOCH = 1_760_000_000;
const MONTH = 2_592_000;
const STATUSES = ["trialing", "active", "past_due", "unpaid", "paused"];
const PLANS = ["price_basic", "price_team", "price_scale"];

/** Seconds between events: mostly none, so that many fall into one second. */
const gap = fc.oneof(
  { weight: 3, arbitrary: fc.constant(0) },
  { weight: 1, arbitrary: fc.constant(1) },
  { weight: 1, arbitrary: fc.integer({ min: 2, max: 100_000 }) },
);

const step: fc.Arbitrary<Step> = fc.record({
  gap,
  kind: fc.oneof(
    { weight: 12, arbitrary: fc.constant("update" as const) },
    { weight: 4, arbitrary: fc.constant("payment_failed" as const) },
    { weight: 1, arbitrary: fc.constant("creation" as const) },
  ),
  changes: fc.record({
    status: fc.option(fc.constantFrom(...STATUSES), { nil: undefined }),
    plan: fc.option(fc.constantFrom(...PLANS), { nil: undefined }),
    period: fc.option(fc.integer({ min: 1, max: 6 }), { nil: undefined }),
  }),
});

const life: fc.Arbitrary<Life> = fc.record({
  start: gap,
  steps: fc.array(step, { maxLength: 7 }),
  deletion: fc.option(gap, { nil: undefined }),
  afterlife: fc.oneof(
    { weight: 3, arbitrary: fc.constant([]) },
    { weight: 1, arbitrary: fc.array(step, { maxLength: 2 }) },
  ),
});

/** Histories of one to three subscriptions. */
export const history: fc.Arbitrary<History> = fc
  .array(life, { minLength: 1, maxLength: 3 })
  .map((lives) => lives.flatMap(liveThrough))
  .chain((events) =>
    fc.array(fc.nat({ max: 2 }), {
      minLength: events.length,
      maxLength: events.length,
    }).chain((repetitions) => {
      const copies = events.flatMap((event, i) =>
        Array<HistoryEvent>(1 + Math.max(0, (repetitions[i] ?? 0) - 1))
          .fill(event)
      );
      return fc.shuffledSubarray(copies, { minLength: copies.length });
    }).map((deliveries) => ({ events, deliveries }))
  );

/** Copies a history under ids of its own, so that runs can share tables. */
export function renamed(history: History, prefix: string): History {
  const rename = (event: HistoryEvent): HistoryEvent => ({
    ...event,
    id: `evt_${prefix}_${event.id}`,
    subscription: `sub_${prefix}_${event.subscription}`,
  });
  return {
    events: history.events.map(rename),
    deliveries: history.deliveries.map(rename),
  };
}

/**
 * Lives through one subscription. What the ordering rule leaves open is kept
 * out: a third update within a second, and a value that changes and changes
 * back within one. Such a step happens a second later instead, and so does
 * what the rule's ranks (creation, update, deletion) would take for earlier.
 */
function liveThrough(life: Life, index: number): HistoryEvent[] {
  const subscription = String(index);
  const account = `acc_${index}`;
  const events: HistoryEvent[] = [];
  let created = EPOCH + life.start;
  let values: Values = {
    status: "active",
    plan: "price_basic",
    periodEnd: EPOCH + MONTH,
  };
  let updatesThisSecond = 0;
  let valuesThisSecond: Values[] = [values];

  const happen = (
    type: HistoryEvent["type"],
    previous: Partial<Values> = {},
  ) =>
    events.push({
      id: `${index}_${events.length}`,
      type,
      created,
      subscription,
      account,
      values,
      previous,
    });
  const pass = (seconds: number) => {
    if (seconds === 0) return;
    created += seconds;
    updatesThisSecond = 0;
    valuesThisSecond = [values];
  };

  const take = ({ gap, kind, changes }: Step) => {
    pass(gap);
    if (kind === "payment_failed") {
      happen("invoice.payment_failed");
      return;
    }
    if (kind === "creation") {
      // Within a second the rule takes a creation for the first event.
      pass(1);
      values = { ...values, status: "active" };
      valuesThisSecond = [values];
      happen("customer.subscription.created");
      return;
    }
    const next: Values = {
      status: changes.status ?? values.status,
      plan: changes.plan ?? values.plan,
      periodEnd: changes.period === undefined
        ? values.periodEnd
        : EPOCH + changes.period * MONTH,
    };
    if (
      updatesThisSecond === 2 || changesBack(next, values, valuesThisSecond)
    ) {
      pass(1);
    }
    const previous = replaced(values, next);
    values = next;
    valuesThisSecond.push(next);
    updatesThisSecond++;
    happen("customer.subscription.updated", previous);
  };

  happen("customer.subscription.created");
  life.steps.forEach(take);
  if (life.deletion !== undefined) {
    pass(life.deletion);
    happen("customer.subscription.deleted");
    // Within a second the rule takes a deletion for the last event.
    pass(1);
    life.afterlife.forEach(take);
  }
  return events;
}

const KEYS = ["status", "plan", "periodEnd"] as const;

function replaced(before: Values, after: Values): Partial<Values> {
  return Object.fromEntries(
    KEYS.filter((key) => before[key] !== after[key])
      .map((key) => [key, before[key]]),
  );
}

function changesBack(
  next: Values,
  current: Values,
  seen: readonly Values[],
): boolean {
  return KEYS.some((key) =>
    next[key] !== current[key] && seen.some((held) => held[key] === next[key])
  );
}
