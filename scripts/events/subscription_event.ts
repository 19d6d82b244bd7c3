import {
  API_VERSIONS,
  type ApiVersion,
  eventFrom,
  type EventOptions,
  type EventType,
  type StripeEvent,
} from "./templates.ts";

/** Part of a subscription before 2025-03-31.basil, and of its items since then. */
interface Period {
  current_period_start?: number;
  current_period_end?: number;
}

interface SubscriptionItemObject extends Period {
  id: string;
  plan: { id: string };
  price: { id: string; product: string; recurring: { usage_type: string } };
  quantity?: number;
}

export interface SubscriptionObject extends Period {
  id: string;
  status: string;
  customer: string | null;
  metadata: { accountId?: string };
  plan: { id: string };
  items: { data: [SubscriptionItemObject, ...SubscriptionItemObject[]] };
  quantity?: number;
  cancel_at: number | null;
  cancel_at_period_end: boolean;
  trial_end: number | null;
  pause_collection: { behavior: string; resumes_at: number | null } | null;
  livemode?: boolean;
}

/** For null, the event has null or lacks the field. Times are in Unix seconds. */
export interface SubscriptionEventOptions extends EventOptions {
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

type PreviousValues = Omit<
  SubscriptionEventOptions,
  keyof EventOptions | "usageType" | "livemode" | "previous"
>;

export type SubscriptionEventType = Extract<
  EventType,
  `customer.subscription.${string}`
>;

/**
 * The members of a subscription that hold each value. If an item changed, Stripe sends
 * all items whole; since 2025-03-31.basil, the period is part of an item.
 */
const MEMBERS: Readonly<Record<keyof PreviousValues, readonly string[]>> = {
  addOns: ["items"],
  cancelAt: ["cancel_at"],
  cancelAtPeriodEnd: ["cancel_at_period_end"],
  customer: ["customer"],
  paused: ["pause_collection"],
  periodEnd: ["items", "current_period_start", "current_period_end"],
  plan: ["items", "plan"],
  quantity: ["items", "quantity"],
  status: ["status"],
  trialEnd: ["trial_end"],
};

export function subscriptionEvent(
  type: SubscriptionEventType,
  options: SubscriptionEventOptions = {},
): StripeEvent<SubscriptionObject> {
  const event = eventFrom<SubscriptionObject>(type, options);
  const { data } = event;
  const former = structuredClone(data.object);
  setValues(data.object, options);

  const { previous, livemode = false } = options;
  const { previous_attributes: attributes } = data;
  if (previous === null) {
    delete data.previous_attributes;
  } else if (previous && attributes) {
    setValues(former, { ...options, ...previous });
    const names = Object.entries(MEMBERS)
      .flatMap(([value, members]) => value in previous ? members : []);
    data.previous_attributes = Object.fromEntries(
      names.map((name) => [name, Reflect.get(former, name)]),
    );
  } else if (attributes) {
    const { apiVersion } = options;
    movePeriod(attributes as unknown as SubscriptionObject, apiVersion);
  }

  for (const holder of [event, data.object]) {
    if (livemode === null) delete holder.livemode;
    else holder.livemode = livemode;
  }
  return event;
}

function setValues(
  object: SubscriptionObject,
  { quantity = 1, usageType = "licensed", ...options }:
    SubscriptionEventOptions,
): void {
  const { plan, status, customer, periodEnd, trialEnd, paused } = options;
  const { data: items } = object.items;
  const [item] = items;
  if (plan !== undefined) {
    for (const holder of [object.plan, item.plan, item.price]) holder.id = plan;
  }
  if (periodEnd !== undefined) item.current_period_end = periodEnd;
  setQuantity(object, quantity);
  setQuantity(item, quantity);
  item.price.recurring.usage_type = usageType;

  if (customer !== undefined) object.customer = customer;
  if (options.account === null) delete object.metadata.accountId;
  object.status = status ?? object.status;
  object.cancel_at = options.cancelAt ?? null;
  object.cancel_at_period_end = options.cancelAtPeriodEnd ?? false;
  if (trialEnd !== undefined) object.trial_end = trialEnd;
  object.pause_collection = paused
    ? { behavior: paused, resumes_at: null }
    : null;

  movePeriod(object, options.apiVersion);
  items.push(...itemsOf(options.addOns, item));
}

function setQuantity(
  holder: { quantity?: number },
  quantity: number | null,
): void {
  if (quantity === null) delete holder.quantity;
  else holder.quantity = quantity;
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

/** Before 2025-03-31.basil, the period was part of the subscription. */
function movePeriod(
  object: SubscriptionObject,
  apiVersion: ApiVersion = API_VERSIONS[0],
): void {
  if (apiVersion !== "2024-06-20") return;
  const [item] = object.items.data;
  const { current_period_start, current_period_end } = item;
  Object.assign(object, { current_period_start, current_period_end });
  delete item.current_period_start;
  delete item.current_period_end;
}
