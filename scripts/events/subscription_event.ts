import {
  customerOf,
  eventFrom,
  type EventOptions,
  templateOf,
} from "./event.ts";
import type { StripeEvent, SubscriptionObject } from "./event_types.ts";
import {
  previousAttributes,
  type PreviousValues,
} from "./previous_attributes.ts";
import type { EventType } from "./templates.ts";
import { uniqueId } from "./unique_id.ts";

export interface SubscriptionEventOptions extends EventOptions {
  /** By default a new one for every event. */
  readonly subscription?: string;
  /** Null leaves it out. */
  readonly account?: string | null;
  /** By default one for each subscription. */
  readonly customer?: string | null;
  readonly plan?: string;
  /** Of the first item, by default 1; null leaves it out. */
  readonly quantity?: number | null;
  /** Unix time in seconds, by default a month or a year after `created`. */
  readonly periodEnd?: number;
  /** By default `active`, `past_due` and `canceled`, in the types' order. */
  readonly status?: string;
  /** Unix time in seconds, by default null. */
  readonly cancelAt?: number | null;
  readonly cancelAtPeriodEnd?: boolean;
  /** Unix time in seconds, by default null. */
  readonly trialEnd?: number | null;
  /** How the collection of payments is paused, by default null: not at all. */
  readonly paused?: string | null;
  /** By default false; null leaves it out. */
  readonly livemode?: boolean | null;
  /**
   * What an update replaced, by default a monthly plan that was `active`; null
   * leaves `previous_attributes` out. Only updates have them.
   */
  readonly previous?: PreviousValues | null;
}

/** The types of `subscriptionEvent()`. */
export type SubscriptionEventType = Extract<
  EventType,
  `customer.subscription.${string}`
>;

/** Returns the event of a subscription's creation, update or deletion. */
export function subscriptionEvent(
  type: SubscriptionEventType,
  options: SubscriptionEventOptions = {},
): StripeEvent<SubscriptionObject> {
  const template = templateOf<SubscriptionObject>(type, options);
  const object = template.data.object;
  const item = object.items.data[0];
  const subscription = options.subscription ?? uniqueId("sub");
  const event = eventFrom(template, {
    options,
    values: [
      [object.id, subscription],
      [object.customer ?? undefined, customerOf(subscription)],
      [object.metadata.accountId, options.account ?? undefined],
      [item.price.id, options.plan],
      [
        object.current_period_end ?? item.current_period_end,
        options.periodEnd,
      ],
    ],
  });
  setReport(event, options);
  if (options.previous === null) {
    delete event.data.previous_attributes;
  } else if (event.data.previous_attributes !== undefined) {
    event.data.previous_attributes = previousAttributes(
      event,
      options.previous,
    );
  }
  return event;
}

/** Sets what stands in one place only, so that `fillIn()` is not needed. */
function setReport(
  event: StripeEvent<SubscriptionObject>,
  options: SubscriptionEventOptions,
): void {
  const { object } = event.data;
  const { status, customer, quantity, livemode, paused = null } = options;
  object.status = status ?? object.status;
  object.cancel_at = options.cancelAt ?? null;
  object.cancel_at_period_end = options.cancelAtPeriodEnd ?? false;
  object.trial_end = options.trialEnd ?? null;
  object.pause_collection = paused === null
    ? null
    : { behavior: paused, resumes_at: null };
  if (customer !== undefined) object.customer = customer;
  if (options.account === null) delete object.metadata.accountId;
  for (const holder of [object, object.items.data[0]]) {
    if (quantity === null) delete holder.quantity;
    else holder.quantity = quantity ?? 1;
  }
  for (const holder of [event, object]) {
    if (livemode === null) delete holder.livemode;
    else holder.livemode = livemode ?? false;
  }
}
