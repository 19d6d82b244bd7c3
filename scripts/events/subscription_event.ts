import {
  customerOf,
  eventFrom,
  type EventOptions,
  type EventType,
  type JsonObject,
  type StripeEvent,
  type SubscriptionItemObject,
  type SubscriptionObject,
  templateOf,
  uniqueId,
} from "./templates.ts";

/** For null, the event has null or lacks the field. Times are in Unix seconds. */
export interface SubscriptionEventOptions extends EventOptions {
  readonly subscription?: string;
  readonly account?: string | null;
  /** By default, the subscription's. */
  readonly customer?: string | null;
  readonly plan?: string;
  /** The first item's; by default, 1. */
  readonly quantity?: number | null;
  /** The first item's; by default, `licensed`. */
  readonly usageType?: string;
  readonly addOns?: readonly AddOn[];
  /** By default, a month or a year after `created`. */
  readonly periodEnd?: number;
  /** By default, the one that the type implies. */
  readonly status?: string;
  readonly cancelAt?: number | null;
  readonly cancelAtPeriodEnd?: boolean;
  /** By default null, or in 3 days if the trial will end. */
  readonly trialEnd?: number | null;
  readonly paused?: string | null;
  /** By default false. */
  readonly livemode?: boolean | null;
  /** The values that an update replaced; by default, an `active` monthly plan. */
  readonly previous?: PreviousValues | null;
}

export interface AddOn {
  readonly price: string;
  readonly quantity: number | null;
  readonly usageType?: string;
}

export type PreviousValues = Omit<
  SubscriptionEventOptions,
  | keyof EventOptions
  | ("subscription" | "account" | "usageType" | "livemode" | "previous")
>;

export type SubscriptionEventType = Extract<
  EventType,
  `customer.subscription.${string}`
>;

export function subscriptionEvent(
  type: SubscriptionEventType,
  options: SubscriptionEventOptions = {},
): StripeEvent<SubscriptionObject> {
  const template = templateOf<SubscriptionObject>(type);
  const { id, customer, metadata, items } = template.data.object;
  const subscription = options.subscription ?? uniqueId("sub");
  const event = eventFrom(template, {
    options,
    values: [
      [id, subscription],
      [customer, customerOf(subscription)],
      [metadata.accountId, options.account ?? undefined],
      [items.data[0].price.id, options.plan],
      [items.data[0].current_period_end, options.periodEnd],
    ],
  });

  const { data } = event;
  setStatedValues(event, options);
  if (options.previous === null) {
    delete data.previous_attributes;
  } else if (data.previous_attributes !== undefined) {
    data.previous_attributes = previousAttributes(event, options);
  }

  const { data: list } = data.object.items;
  if (event.api_version === "2024-06-20") {
    Object.assign(data.object, takePeriod(list[0]));
  }
  list.push(...itemsOf(options.addOns, list[0]));
  return event;
}

/** Sets the values that do not replace one of the template's. */
function setStatedValues(
  event: StripeEvent<SubscriptionObject>,
  options: SubscriptionEventOptions,
): void {
  const { object } = event.data;
  const { status, customer, quantity = 1, livemode = false, paused } = options;
  if (customer !== undefined) object.customer = customer;
  if (options.account === null) delete object.metadata.accountId;

  object.status = status ?? object.status;
  object.cancel_at = options.cancelAt ?? null;
  object.cancel_at_period_end = options.cancelAtPeriodEnd ?? false;
  if (options.trialEnd !== undefined) object.trial_end = options.trialEnd;
  object.pause_collection = paused
    ? { behavior: paused, resumes_at: null }
    : null;

  const [item] = object.items.data;
  setQuantity(object, quantity);
  setQuantity(item, quantity);
  item.price.recurring.usage_type = options.usageType ?? "licensed";

  for (const holder of [event, object]) {
    if (livemode === null) delete holder.livemode;
    else holder.livemode = livemode;
  }
}

function setQuantity(
  holder: { quantity?: number },
  quantity: number | null | undefined,
): void {
  if (typeof quantity === "number") holder.quantity = quantity;
  else delete holder.quantity;
}

function itemsOf(
  addOns: readonly AddOn[] = [],
  first: SubscriptionItemObject,
): SubscriptionItemObject[] {
  return addOns.map(({ price, quantity, usageType = "licensed" }) => {
    const item = structuredClone(first);
    item.id = `si_${price}`;
    item.plan.id = price;
    item.price.id = price;
    item.price.product = `prod_${price}`;
    item.price.recurring.usage_type = usageType;
    setQuantity(item, quantity);
    return item;
  });
}

/**
 * Returns the `data.previous_attributes` of an update. If an item changed, Stripe sends
 * all items whole; since 2025-03-31.basil, the period is part of an item.
 */
function previousAttributes(
  event: StripeEvent<SubscriptionObject>,
  options: SubscriptionEventOptions,
): JsonObject {
  const { object } = event.data;
  const full = event.data.previous_attributes as unknown as SubscriptionObject;
  const [current] = object.items.data;
  const [former] = full.items.data;
  const previous: PreviousValues = options.previous ?? {
    status: full.status,
    plan: full.plan.id,
    periodEnd: former.current_period_end!,
  };
  const { plan, periodEnd, quantity, addOns, paused, ...others } = previous;

  const item = structuredClone(plan === undefined ? current : former);
  if (plan !== undefined) {
    item.plan.id = plan;
    item.price.id = plan;
  }
  setQuantity(item, quantity === undefined ? current.quantity : quantity);
  item.current_period_end = periodEnd ?? current.current_period_end!;
  const formerPeriod = event.api_version === "2024-06-20"
    ? takePeriod(item)
    : undefined;

  const isItemChanged = plan !== undefined || quantity !== undefined ||
    addOns !== undefined || (periodEnd !== undefined && !formerPeriod);
  const attributes = {
    ...(periodEnd !== undefined && formerPeriod),
    cancel_at: others.cancelAt,
    cancel_at_period_end: others.cancelAtPeriodEnd,
    customer: others.customer,
    items: isItemChanged
      ? { data: [item, ...itemsOf(addOns ?? options.addOns, item)] }
      : undefined,
    // If the subscription stays paused, only the changed field.
    pause_collection: paused && {
      ...(!object.pause_collection && { resumes_at: null }),
      behavior: paused,
    },
    plan: plan === undefined ? undefined : { id: plan },
    quantity,
    status: others.status,
    trial_end: others.trialEnd,
  };
  return JSON.parse(JSON.stringify(attributes)); // without undefined values
}

function takePeriod(item: SubscriptionItemObject) {
  const { current_period_start, current_period_end } = item;
  delete item.current_period_start;
  delete item.current_period_end;
  return { current_period_start, current_period_end };
}
