/**
 * Events as Paddle, Polar, Dodo Payments and Lemon Squeezy send them, with the fields
 * that the formats, the providers' packages and handlers read.
 */
import {
  type FormatName,
  FORMATS,
} from "../../supabase/functions/_shared/billing/events/formats.ts";
import type { JsonObject } from "./event_types.ts";
import { EVENT_TYPES } from "./templates.ts";
import { uniqueId } from "./unique_id.ts";

/** What an event says. Times are in ISO 8601. */
export interface ProviderEventOptions {
  /** By default a new one. Of Polar and Dodo it is sent in a header. */
  readonly id?: string;
  readonly subscription?: string;
  readonly customer?: string;
  /** None if it is empty or null. */
  readonly account?: string | null;
  readonly plan?: string;
  readonly quantity?: number;
  /** In the provider's own words; by default as the type says. */
  readonly status?: string;
  /** By default now. */
  readonly occurredAt?: string;
  readonly periodEnd?: string | null;
  /** A planned end. */
  readonly cancelAt?: string | null;
  readonly trialEnd?: string | null;
}

/** Stripe's statuses, and Polar's. */
const STATUSES = ["incomplete", "incomplete_expired", "trialing", "active"]
  .concat("past_due", "canceled", "unpaid", "paused");

/**
 * Of each provider: its types that have an effect here, and one that people write a
 * handler for; IDs in its form; its statuses; and its words for statuses that the
 * receiver stores in Stripe's.
 */
export const PROVIDERS = {
  paddle: {
    build: paddle,
    types: [...Object.keys(FORMATS.paddle.kinds), "transaction.completed"],
    subscription: "sub_01hv8x29kz0t586xy6zn1a62ny",
    plan: "pri_01gsz8x8sawmvhz1pv30nge1ke",
    statuses: ["active", "trialing", "past_due", "paused", "canceled"],
    words: {},
  },
  polar: {
    build: polar,
    types: [...Object.keys(FORMATS.polar.kinds), "order.paid"],
    subscription: "e5149aae-e521-42b9-b24c-abb3d71eea2e",
    plan: "d8dd2de1-21b7-4a41-8bc3-ce909c0cfe23",
    statuses: STATUSES,
    words: {},
  },
  dodo: {
    build: dodo,
    types: [...Object.keys(FORMATS.dodo.kinds), "payment.succeeded"],
    subscription: "sub_Xk2lZ0example01",
    plan: "pdt_Xk2lZ0example01",
    statuses: ["pending", "active", "past_due", "on_hold", "paused"]
      .concat("cancelled", "expired", "failed"),
    words: {
      incomplete: "pending",
      canceled: "cancelled",
      incomplete_expired: "expired",
    },
  },
  "lemon-squeezy": {
    build: lemonSqueezy,
    types: [...Object.keys(FORMATS["lemon-squeezy"].kinds), "order_created"],
    subscription: "4021",
    plan: "7301",
    statuses: ["on_trial", "active", "paused", "past_due", "unpaid"]
      .concat("cancelled", "expired"),
    words: { trialing: "on_trial" },
  },
};

export function eventTypesOf(format: FormatName): readonly string[] {
  return format === "stripe" ? EVENT_TYPES : PROVIDERS[format].types;
}

export function statusesOf(format: FormatName): readonly string[] {
  return format === "stripe" ? STATUSES : PROVIDERS[format].statuses;
}

export type Provider = keyof typeof PROVIDERS;

export function providerEvent(
  provider: Provider,
  type: string,
  options: ProviderEventOptions = {},
): JsonObject {
  const occurredAt = options.occurredAt ?? new Date().toISOString();
  const status = statusOfType(provider, type);
  const days = (count: number) =>
    new Date(Date.parse(occurredAt) + count * 86_400_000).toISOString();
  const { build, subscription, plan } = PROVIDERS[provider];
  return build(type, {
    id: uniqueId("evt"),
    ...{ subscription, plan, quantity: 1, account: null },
    customer: `${options.subscription ?? subscription}_c`,
    status,
    periodEnd: days(30),
    cancelAt: null,
    trialEnd: status === "trialing" ? days(14) : null,
    ...options,
    occurredAt,
    startedAt: days(-1),
  });
}

/** Returns the status that a type's name says, or else the usual one. */
export function statusOfType(provider: Provider, type: string): string {
  const [, word] = /[._]([a-z]+(?:_(?:due|hold))?)$/.exec(type) ?? [];
  const { statuses } = PROVIDERS[provider];
  if (word === "revoked") return "canceled";
  return statuses.find((status) => status === word) ?? "active";
}

type Said = Required<ProviderEventOptions> & { readonly startedAt: string };

function paddle(type: string, said: Said): JsonObject {
  const starts_at = said.startedAt;
  const period = said.periodEnd && { starts_at, ends_at: said.periodEnd };
  const isEnded = ["paused", "canceled"].includes(said.status);
  const isFailed = type.endsWith("failed");
  const billing_cycle = { interval: "month", frequency: 1 };
  const price = {
    id: said.plan,
    product_id: "pro_01gsz4t5hdjse780zja8vvr7jg",
    description: "Monthly",
    billing_cycle,
    unit_price: { amount: "3000", currency_code: "USD" },
    quantity: { minimum: 1, maximum: 999 },
  };
  const common = {
    customer_id: said.customer,
    currency_code: "USD",
    custom_data: said.account ? { accountId: said.account } : null,
    created_at: starts_at,
    updated_at: said.occurredAt,
  };
  const subscription = {
    ...common,
    id: said.subscription,
    status: said.status,
    started_at: starts_at,
    next_billed_at: isEnded ? null : said.periodEnd,
    current_billing_period: isEnded ? null : period,
    billing_cycle,
    scheduled_change: said.cancelAt &&
      { action: "cancel", effective_at: said.cancelAt },
    items: [{
      price,
      quantity: said.quantity,
      trial_dates: said.trialEnd && { starts_at, ends_at: said.trialEnd },
    }],
  };
  const transaction = {
    ...common,
    // A payment is tried again in the same transaction; each purchase has its own.
    id: isFailed ? "txn_01hv8wptq8987qeep44cyrewp9" : `txn_${said.id}`,
    status: isFailed ? "past_due" : "completed",
    subscription_id: isFailed ? said.subscription : null,
    billing_period: period,
    items: [{ price, quantity: said.quantity }],
    details: {
      tax_rates_used: [],
      totals: { grand_total: "3000", currency_code: "USD" },
      line_items: [],
    },
    payments: [],
  };
  return {
    event_id: said.id,
    event_type: type,
    occurred_at: said.occurredAt,
    data: type.startsWith("subscription.") ? subscription : transaction,
  };
}

function polar(type: string, said: Said): JsonObject {
  const common = {
    created_at: said.startedAt,
    customer_id: said.customer,
    customer: {
      id: said.customer,
      external_id: null,
      email: "user@example.com",
    },
    product_id: said.plan,
    seats: said.quantity,
    currency: "usd",
    metadata: said.account ? { accountId: said.account } : {},
  };
  const subscription = {
    ...common,
    id: said.subscription,
    status: said.status,
    amount: 3000,
    current_period_start: said.startedAt,
    current_period_end: said.periodEnd,
    trial_end: said.trialEnd,
    cancel_at_period_end: said.cancelAt !== null,
    ends_at: said.cancelAt,
  };
  const order = {
    ...common,
    id: said.id,
    status: "paid",
    total_amount: 3000,
    billing_reason: "purchase",
    subscription_id: null,
  };
  const data = type.startsWith("subscription.") ? subscription : order;
  return { type, timestamp: said.occurredAt, data };
}

function dodo(type: string, said: Said): JsonObject {
  const isFailed = type.endsWith("failed");
  const startMs = Date.parse(said.trialEnd ?? "") - 15 * 86_400_000;
  const common = {
    created_at: said.trialEnd
      ? new Date(startMs).toISOString()
      : said.startedAt,
    customer: { customer_id: said.customer, email: "user@example.com" },
    metadata: said.account ? { accountId: said.account } : {},
    currency: "USD",
  };
  const subscription = {
    ...common,
    payload_type: "Subscription",
    subscription_id: said.subscription,
    product_id: said.plan,
    quantity: said.quantity,
    addons: [],
    status: said.status,
    // It ends with the period, and at no other time.
    next_billing_date: said.cancelAt ?? said.periodEnd,
    cancel_at_next_billing_date: said.cancelAt !== null,
    trial_period_days: said.trialEnd ? 15 : 0,
    recurring_pre_tax_amount: 3000,
  };
  const payment = {
    ...common,
    payload_type: "Payment",
    payment_id: `pay_${said.id}`,
    subscription_id: isFailed ? said.subscription : null,
    status: isFailed ? "failed" : "succeeded",
    total_amount: 3000,
  };
  const data = type.startsWith("subscription.") ? subscription : payment;
  const { occurredAt: timestamp } = said;
  return { business_id: "bus_example", type, timestamp, data };
}

function lemonSqueezy(type: string, said: Said): JsonObject {
  const common = {
    customer_id: said.customer,
    user_email: "user@example.com",
    created_at: said.startedAt,
    updated_at: said.occurredAt,
    test_mode: true,
  };
  const subscription = {
    ...common,
    product_id: 501,
    variant_id: Number(said.plan) || said.plan,
    status: said.cancelAt ? "cancelled" : said.status,
    pause: said.status === "paused" ? { mode: "void" } : null,
    trial_ends_at: said.trialEnd,
    first_subscription_item: { quantity: said.quantity },
    renews_at: said.periodEnd,
    ends_at: type.endsWith("expired") ? said.occurredAt : said.cancelAt,
  };
  const paid = { ...common, total: 3000, currency: "USD" };
  const invoice = {
    ...paid,
    subscription_id: Number(said.subscription) || said.subscription,
    status: "pending",
  };
  const order = { ...paid, identifier: said.id, status: "paid" };
  const [kind, id, attributes] = type === "subscription_payment_failed"
    ? ["subscription-invoices", `${said.subscription}1`, invoice]
    : type.startsWith("subscription_")
    ? ["subscriptions", said.subscription, subscription]
    : ["orders", "31", order];
  return {
    meta: {
      event_name: type,
      test_mode: true,
      ...(said.account && { custom_data: { account_id: said.account } }),
    },
    data: { type: kind, id, attributes },
  };
}
