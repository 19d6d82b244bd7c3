/**
 * Events of a subscription, with the values given on the command line, and else the
 * record's, so that nothing else changes.
 */
import { kindOf } from "../../supabase/functions/_shared/billing/events/format.ts";
import {
  type FormatName,
  FORMATS,
} from "../../supabase/functions/_shared/billing/events/formats.ts";
import type { Row } from "../common/project_api.ts";
import type { JsonObject } from "../events/templates.ts";
import {
  type Provider,
  providerEvent,
  PROVIDERS,
  statusOfType,
} from "../events/provider_events.ts";
import {
  subscriptionEvent,
  type SubscriptionEventType,
} from "../events/subscription_event.ts";

export type SubscriptionRecord = Row<"billing_subscriptions">;

/** Times are in Unix seconds, or null for none. */
interface Values {
  readonly account?: string;
  readonly customer?: string;
  readonly status?: string;
  readonly plan?: string;
  readonly quantity?: number;
  readonly periodEnd?: number;
  readonly cancelAt?: number | null;
  readonly trialEnd?: number | null;
  /** Only Stripe's events state these two apart from the status. */
  readonly paused?: string | null;
  readonly livemode?: boolean | null;
}

interface Stated {
  readonly given: Values;
  readonly ids: { readonly subscription: string; readonly id?: string };
  readonly format: FormatName;
  readonly created: number | undefined;
  readonly record: SubscriptionRecord | undefined;
}

export function isOfSubscription(format: FormatName, type: string): boolean {
  const kind = kindOf(FORMATS[format], type) ?? "";
  return /^(?:creation|opening_update|update|deletion)$/.test(kind);
}

export function isChange(format: FormatName, type: string): boolean {
  const isFirst = kindOf(FORMATS[format], type) === "creation" ||
    type === "subscription.active"; // Dodo has no creation.
  return isOfSubscription(format, type) && !isFirst;
}

export function statedEvent(type: string, stated: Stated): JsonObject {
  const { format, created = Math.floor(Date.now() / 1000), record } = stated;
  const before = record && isChange(format, type)
    ? valuesOf(record, format)
    : { account: "acc_local" };
  const all = { ...stated, created, before };
  return format === "stripe"
    ? stripeEvent(type as SubscriptionEventType, all)
    : otherEvent(type, { ...all, format });
}

/** Returns the values of a record, with the status in the provider's words. */
function valuesOf(record: SubscriptionRecord, format: FormatName): Values {
  const words: Readonly<Record<string, string>> = format === "stripe"
    ? {}
    : PROVIDERS[format].words;
  const status = record.provider_status;
  const end = seconds(record.current_period_end);
  return {
    account: record.account_id,
    plan: record.plan_id,
    quantity: record.quantity ?? 1,
    cancelAt: seconds(record.cancel_at),
    trialEnd: seconds(record.trial_end),
    paused: record.paused,
    livemode: record.livemode,
    ...(status && { status: words[status] ?? status }),
    ...(record.customer_id &&
      { customer: record.customer_id.replace(/^ls_/, "") }),
    ...(end && { periodEnd: end }),
  };
}

function seconds(time: string | null): number | null {
  return time === null ? null : Math.floor(Date.parse(time) / 1000);
}

const TRIAL_SECONDS = 14 * 86_400;

/** Ends a trial that has no future end, and its period, in 14 days. */
function withTrial(values: Values, created: number): Values {
  const isTrial = /^(?:trialing|on_trial)$/.test(values.status ?? "");
  if (!isTrial || (values.trialEnd ?? 0) > created) return values;
  const trialEnd = created + TRIAL_SECONDS;
  return { ...values, trialEnd, periodEnd: trialEnd };
}

type Known = Stated & { readonly created: number; readonly before: Values };

const STRIPE_STATUS: Readonly<Record<string, string>> = {
  "customer.subscription.paused": "paused",
  "customer.subscription.resumed": "active",
  "customer.subscription.deleted": "canceled",
};

function stripeEvent(
  type: SubscriptionEventType,
  { given, ids, created, before }: Known,
): JsonObject {
  const eventOf = (values: Values, as: SubscriptionEventType) => {
    const account = values.account || null;
    return subscriptionEvent(as, { ...ids, ...values, created, account });
  };

  const isUpdate = type === "customer.subscription.updated";
  if (isUpdate && Object.keys(given).length === 0) {
    const { account = "", customer } = before;
    return { ...eventOf({ account, ...(customer && { customer }) }, type) };
  }

  const status = STRIPE_STATUS[type];
  const after = { ...before, ...(status && { status }), ...given };
  // The templates of the later types have the yearly plan.
  const event = eventOf(
    withTrial(after, created),
    "customer.subscription.created",
  );
  const object: JsonObject = { ...event.data.object };
  if (status === "canceled") {
    object["ended_at"] = created;
    object["canceled_at"] = created;
  }

  // Stripe sends the former value of each changed member, as a whole.
  const { object: former } =
    eventOf(before, "customer.subscription.created").data;
  const replaced = Object.entries(former).filter(([name, value]) =>
    JSON.stringify(value) !== JSON.stringify(object[name])
  );
  const previous_attributes = Object.fromEntries(replaced);
  return {
    ...event,
    type,
    data: { object, ...(isUpdate && { previous_attributes }) },
  };
}

function otherEvent(
  type: string,
  { given, ids, format, created, before }: Known & { format: Provider },
): JsonObject {
  // All other types name the status.
  const keepsStatus = /(?:updated|plan_changed)$/.test(type);
  const status = keepsStatus && before.status || statusOfType(format, type);
  const stated = withTrial({ ...before, status, ...given }, created);

  const { periodEnd, cancelAt, trialEnd, ...rest } = stated;
  const iso = (time: number) => new Date(time * 1000).toISOString();
  return providerEvent(format, type, {
    ...ids,
    ...rest,
    ...(periodEnd !== undefined && { periodEnd: iso(periodEnd) }),
    cancelAt: cancelAt ? iso(cancelAt) : null,
    trialEnd: trialEnd ? iso(trialEnd) : null,
    occurredAt: iso(created),
  });
}
