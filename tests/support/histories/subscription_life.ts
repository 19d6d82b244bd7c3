/**
 * From what happens to a subscription to the events that Stripe makes of it.
 *
 * @module
 */
import type { ApiVersion } from "../../../scripts/events/templates.ts";
import type { HistoryEvent, Values } from "./history_event.ts";

/** An update, or a failed payment; an update of nothing that is kept is `{}`. */
export interface Happening {
  readonly status?: string;
  readonly plan?: string;
  /** Its number. */
  readonly period?: number;
  /** Whether a part of the item changed that is not kept. */
  readonly item?: boolean;
  /** A failed payment, and nothing else. */
  readonly invoice?: boolean;
}

/** What happens in one second, as a rule. */
export interface Moment {
  /** Seconds after what was before. */
  readonly gap: number;
  /** Or the subscription is created once more. */
  readonly happenings: readonly Happening[] | "creation";
}

/** All that happens to a subscription. */
export interface Life {
  readonly apiVersion: ApiVersion;
  readonly start: number;
  readonly creation: {
    readonly status: string;
    readonly happenings: readonly Happening[];
  };
  readonly moments: readonly Moment[];
  readonly deletion: number | undefined;
  readonly afterlife: readonly Moment[];
}

const EPOCH = 1_760_000_000;
const MONTH = 2_592_000;
const KEYS = ["status", "plan", "periodEnd"] as const;

/**
 * Lives through one subscription. What the ordering rule leaves open is kept
 * out: a value that changes and changes back within one second does so a
 * second later instead. So does what the rule's ranks (creation, update,
 * deletion) would take for earlier.
 */
export function liveThrough(life: Life, index: number): HistoryEvent[] {
  const { apiVersion } = life;
  const events: HistoryEvent[] = [];
  let created = EPOCH + life.start;
  let values: Values = {
    status: life.creation.status,
    plan: "price_basic",
    periodEnd: EPOCH + MONTH,
  };
  let valuesThisSecond = [values];

  function happen(
    type: HistoryEvent["type"],
    previous: Partial<Values> = {},
  ): void {
    events.push({
      id: `${index}_${events.length}`,
      type,
      apiVersion,
      created,
      subscription: String(index),
      account: `acc_${index}`,
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
    const { status, plan, period, item = false } = happening;
    const next: Values = {
      status: status ?? values.status,
      plan: plan ?? values.plan,
      periodEnd: period === undefined
        ? values.periodEnd
        : EPOCH + period * MONTH,
    };
    if (changesBack(next, values, valuesThisSecond)) pass(1);
    const previous = previousValues(values, next, { apiVersion, item });
    values = next;
    valuesThisSecond.push(next);
    happen("customer.subscription.updated", previous);
  }

  function liveMoment({ gap, happenings }: Moment): void {
    pass(gap);
    if (happenings !== "creation") return happenings.forEach(take);
    // Within a second the rule takes a creation for the first event.
    pass(1);
    values = { ...values, status: "active" };
    valuesThisSecond = [values];
    happen("customer.subscription.created");
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
 * What `previous_attributes` tell. The old items are in them whole if any part
 * of them changed, and since 2025-03-31.basil the period is such a part.
 */
function previousValues(
  before: Values,
  after: Values,
  { apiVersion, item }: { apiVersion: ApiVersion; item: boolean },
): Partial<Values> {
  const changed = new Set(KEYS.filter((key) => before[key] !== after[key]));
  const periodIsInItem = apiVersion !== "2024-06-20";
  const itemIsSent = item || changed.has("plan") ||
    (periodIsInItem && changed.has("periodEnd"));
  if (itemIsSent) changed.add("plan");
  if (itemIsSent && periodIsInItem) changed.add("periodEnd");
  return Object.fromEntries([...changed].map((key) => [key, before[key]]));
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
