/**
 * From what happens to a subscription to the events that Stripe makes of it.
 *
 * @module
 */
import type { ApiVersion } from "../../../scripts/events/templates.ts";
import { type HistoryEvent, recorded, type Values } from "./model.ts";

/** An update, or a failed payment; an update of nothing that is kept is `{}`. */
export interface Happening {
  readonly status?: string;
  readonly plan?: string;
  /** Its number. */
  readonly period?: number;
  readonly customer?: string | null;
  /** Null: the price is based on usage. */
  readonly quantity?: number | null;
  /** The number of the period after which it ends. */
  readonly cancelAt?: number | null;
  readonly cancelAtPeriodEnd?: boolean;
  /** The number of the period after which the trial ends. */
  readonly trialEnd?: number | null;
  readonly paused?: string | null;
  /** No provider changes it; but an event may leave it out. */
  readonly livemode?: boolean | null;
  /** Whether a part of the item changed that is not kept. */
  readonly item?: boolean;
  /** A failed payment, and nothing else. */
  readonly invoice?: boolean;
}

/** What happens in one second, as a rule. */
export interface Moment {
  /** Seconds after what was before. */
  readonly gap: number;
  /** Or the subscription is created once more, with its account or without. */
  readonly happenings:
    | readonly Happening[]
    | "creation"
    | "creation without account";
}

/** All that happens to a subscription. */
export interface Life {
  readonly apiVersion: ApiVersion;
  /** Whether it has the customer and the account of the first subscription. */
  readonly isOfFirst: boolean;
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

/**
 * Lives through one subscription. What the ordering rule leaves open is kept
 * out: a value that changes and changes back within one second does so a
 * second later instead. So does what the rule's ranks (creation, update,
 * deletion) would take for earlier.
 */
export function liveThrough(life: Life, index: number): HistoryEvent[] {
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
    cancelAt: null,
    cancelAtPeriodEnd: false,
    trialEnd: null,
    paused: null,
    livemode: false,
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
    // No event tells what livemode was.
    if (
      next.livemode !== values.livemode ||
      changesBack(next, values, valuesThisSecond)
    ) pass(1);
    const previous = previousValues(values, next, { apiVersion, item });
    values = next;
    valuesThisSecond.push(next);
    happen("customer.subscription.updated", { previous });
  }

  function liveMoment({ gap, happenings }: Moment): void {
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
 * What `previous_attributes` tell. The old items are in them whole if any part
 * of them changed, and since 2025-03-31.basil the period is such a part.
 */
function previousValues(
  before: Values,
  after: Values,
  { apiVersion, item }: { apiVersion: ApiVersion; item: boolean },
): Partial<Values> {
  const changed = new Set(
    keysOf(before).filter((key) => before[key] !== after[key]),
  );
  changed.delete("livemode");
  const periodIsInItem = apiVersion !== "2024-06-20";
  const itemIsSent = item || changed.has("plan") || changed.has("quantity") ||
    (periodIsInItem && changed.has("periodEnd"));
  if (itemIsSent) changed.add("plan").add("quantity");
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
    after[key] !== before[key] &&
    earlier.some((held) => held[key] === after[key])
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
