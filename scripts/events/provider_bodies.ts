/** Events with the fields that the formats, the providers' packages and handlers read. */
import type { JsonObject } from "./templates.ts";

/** Times are in ISO 8601. */
export interface EventFacts {
  /** Polar and Dodo send it in a header. */
  readonly id: string;
  readonly subscription: string;
  readonly customer: string;
  /** Left out if empty or null. */
  readonly account: string | null;
  readonly plan: string;
  readonly quantity: number;
  /** In the provider's own words. */
  readonly status: string;
  readonly startedAt: string;
  readonly occurredAt: string;
  readonly periodEnd: string | null;
  /** A planned end. */
  readonly cancelAt: string | null;
  readonly trialEnd: string | null;
}

export function paddle(type: string, facts: EventFacts): JsonObject {
  const starts_at = facts.startedAt;
  const period = facts.periodEnd && { starts_at, ends_at: facts.periodEnd };
  const isEnded = ["paused", "canceled"].includes(facts.status);
  const isFailed = type.endsWith("failed");
  const billing_cycle = { interval: "month", frequency: 1 };

  const price = {
    id: facts.plan,
    product_id: "pro_01gsz4t5hdjse780zja8vvr7jg",
    description: "Monthly",
    billing_cycle,
    unit_price: { amount: "3000", currency_code: "USD" },
    quantity: { minimum: 1, maximum: 999 },
  };
  const common = {
    customer_id: facts.customer,
    currency_code: "USD",
    custom_data: facts.account ? { accountId: facts.account } : null,
    created_at: starts_at,
    updated_at: facts.occurredAt,
  };

  const subscription = {
    ...common,
    id: facts.subscription,
    status: facts.status,
    started_at: starts_at,
    next_billed_at: isEnded ? null : facts.periodEnd,
    current_billing_period: isEnded ? null : period,
    billing_cycle,
    scheduled_change: facts.cancelAt &&
      { action: "cancel", effective_at: facts.cancelAt },
    items: [{
      price,
      quantity: facts.quantity,
      trial_dates: facts.trialEnd && { starts_at, ends_at: facts.trialEnd },
    }],
  };

  const transaction = {
    ...common,
    // A failed payment is retried in its transaction; each purchase has a new one.
    id: isFailed ? "txn_01hv8wptq8987qeep44cyrewp9" : `txn_${facts.id}`,
    status: isFailed ? "past_due" : "completed",
    subscription_id: isFailed ? facts.subscription : null,
    billing_period: period,
    items: [{ price, quantity: facts.quantity }],
    details: {
      tax_rates_used: [],
      totals: { grand_total: "3000", currency_code: "USD" },
      line_items: [],
    },
    payments: [],
  };

  return {
    event_id: facts.id,
    event_type: type,
    occurred_at: facts.occurredAt,
    data: type.startsWith("subscription.") ? subscription : transaction,
  };
}

export function polar(type: string, facts: EventFacts): JsonObject {
  const common = {
    created_at: facts.startedAt,
    customer_id: facts.customer,
    customer: {
      id: facts.customer,
      external_id: null,
      email: "user@example.com",
    },
    product_id: facts.plan,
    seats: facts.quantity,
    currency: "usd",
    metadata: facts.account ? { accountId: facts.account } : {},
  };

  const subscription = {
    ...common,
    id: facts.subscription,
    status: facts.status,
    amount: 3000,
    current_period_start: facts.startedAt,
    current_period_end: facts.periodEnd,
    trial_end: facts.trialEnd,
    cancel_at_period_end: facts.cancelAt !== null,
    ends_at: facts.cancelAt,
  };

  const order = {
    ...common,
    id: facts.id,
    status: "paid",
    total_amount: 3000,
    billing_reason: "purchase",
    subscription_id: null,
  };

  const data = type.startsWith("subscription.") ? subscription : order;
  return { type, timestamp: facts.occurredAt, data };
}

export function dodo(type: string, facts: EventFacts): JsonObject {
  const isFailed = type.endsWith("failed");
  const startMs = Date.parse(facts.trialEnd ?? "") - 15 * 86_400_000;
  const common = {
    created_at: facts.trialEnd
      ? new Date(startMs).toISOString()
      : facts.startedAt,
    customer: { customer_id: facts.customer, email: "user@example.com" },
    metadata: facts.account ? { accountId: facts.account } : {},
    currency: "USD",
  };

  const subscription = {
    ...common,
    payload_type: "Subscription",
    subscription_id: facts.subscription,
    product_id: facts.plan,
    quantity: facts.quantity,
    addons: [],
    status: facts.status,
    // It ends with the period, and at no other time.
    next_billing_date: facts.cancelAt ?? facts.periodEnd,
    cancel_at_next_billing_date: facts.cancelAt !== null,
    trial_period_days: facts.trialEnd ? 15 : 0,
    recurring_pre_tax_amount: 3000,
  };

  const payment = {
    ...common,
    payload_type: "Payment",
    payment_id: `pay_${facts.id}`,
    subscription_id: isFailed ? facts.subscription : null,
    status: isFailed ? "failed" : "succeeded",
    total_amount: 3000,
  };

  const data = type.startsWith("subscription.") ? subscription : payment;
  const timestamp = facts.occurredAt;
  return { business_id: "bus_example", type, timestamp, data };
}

export function lemonSqueezy(type: string, facts: EventFacts): JsonObject {
  const meta = {
    event_name: type,
    test_mode: true,
    ...(facts.account && { custom_data: { account_id: facts.account } }),
  };
  const common = {
    customer_id: facts.customer,
    user_email: "user@example.com",
    created_at: facts.startedAt,
    updated_at: facts.occurredAt,
    test_mode: true,
  };
  const paid = { ...common, total: 3000, currency: "USD" };

  if (type === "subscription_payment_failed") {
    const attributes = {
      ...paid,
      subscription_id: Number(facts.subscription) || facts.subscription,
      status: "pending",
    };
    const id = `${facts.subscription}1`;
    return { meta, data: { type: "subscription-invoices", id, attributes } };
  }

  if (type.startsWith("subscription_")) {
    const attributes = {
      ...common,
      product_id: 501,
      variant_id: Number(facts.plan) || facts.plan,
      status: facts.cancelAt ? "cancelled" : facts.status,
      pause: facts.status === "paused" ? { mode: "void" } : null,
      trial_ends_at: facts.trialEnd,
      first_subscription_item: { quantity: facts.quantity },
      renews_at: facts.periodEnd,
      ends_at: type.endsWith("expired") ? facts.occurredAt : facts.cancelAt,
    };
    const id = facts.subscription;
    return { meta, data: { type: "subscriptions", id, attributes } };
  }

  const attributes = { ...paid, identifier: facts.id, status: "paid" };
  return { meta, data: { type: "orders", id: "31", attributes } };
}
