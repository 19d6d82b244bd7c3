/** Events as Paddle, Polar, Dodo Payments and Lemon Squeezy send them. */
import type { FormatName } from "../../supabase/functions/_shared/billing/formats/formats.ts";
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

/**
 * Of each provider: its types that have an effect here, and one that people write a handler
 * for; IDs in its form; and the statuses that types say.
 */
export const PROVIDERS = {
  paddle: {
    build: paddle,
    types: [
      ...["created", "imported", "updated", "activated", "trialing"],
      ...["past_due", "paused", "resumed", "canceled"],
    ].map((type) => `subscription.${type}`)
      .concat("transaction.payment_failed", "transaction.completed"),
    subscription: "sub_01hv8x29kz0t586xy6zn1a62ny",
    plan: "pri_01gsz8x8sawmvhz1pv30nge1ke",
    statuses: ["trialing", "past_due", "paused", "canceled"],
  },
  polar: {
    build: polar,
    types: ["created", "updated", "past_due", "revoked"]
      .map((type) => `subscription.${type}`).concat("order.paid"),
    subscription: "e5149aae-e521-42b9-b24c-abb3d71eea2e",
    plan: "d8dd2de1-21b7-4a41-8bc3-ce909c0cfe23",
    statuses: ["past_due"],
  },
  dodo: {
    build: dodo,
    types: [
      ...["active", "updated", "renewed", "plan_changed", "on_hold", "paused"],
      ...["unpaused", "cancelled", "expired", "failed"],
    ].map((type) => `subscription.${type}`)
      .concat("payment.failed", "payment.succeeded"),
    subscription: "sub_Xk2lZ0example01",
    plan: "pdt_Xk2lZ0example01",
    statuses: ["on_hold", "paused", "cancelled", "expired", "failed"],
  },
  "lemon-squeezy": {
    build: lemonSqueezy,
    types: ["created", "updated", "expired", "payment_failed"]
      .map((type) => `subscription_${type}`).concat("order_created"),
    subscription: "4021",
    plan: "7301",
    statuses: ["expired"],
  },
};

/** The types of each format that there are events of. */
export const EVENT_TYPES_OF: Readonly<Record<FormatName, readonly string[]>> = {
  stripe: EVENT_TYPES,
  paddle: PROVIDERS.paddle.types,
  polar: PROVIDERS.polar.types,
  dodo: PROVIDERS.dodo.types,
  "lemon-squeezy": PROVIDERS["lemon-squeezy"].types,
};

/** The providers whose events have a shape of their own. */
export type Provider = keyof typeof PROVIDERS;

/** Returns an event of a provider. */
export function providerEvent(
  provider: Provider,
  type: string,
  options: ProviderEventOptions = {},
): JsonObject {
  const occurredAt = options.occurredAt ?? new Date().toISOString();
  const [, status] = /[._]([a-z]+(?:_(?:due|hold))?)$/.exec(type) ?? [];
  const days = (count: number) =>
    new Date(Date.parse(occurredAt) + count * 86_400_000).toISOString();
  const { build, subscription, plan, statuses } = PROVIDERS[provider];
  return build(type, {
    id: uniqueId("evt"),
    ...{ subscription, plan, quantity: 1, account: null },
    customer: `${options.subscription ?? subscription}_c`,
    status: statuses.find((one) => one === status) ?? "active",
    periodEnd: days(30),
    cancelAt: null,
    trialEnd: status === "trialing" ? days(14) : null,
    ...options,
    occurredAt,
    startedAt: days(-1),
  });
}

type Said = Required<ProviderEventOptions> & { readonly startedAt: string };

function paddle(type: string, said: Said): JsonObject {
  const money = { id: "pro_01gsz4t5hdjse780zja8vvr7jg", status: "active" };
  const created_at = said.startedAt;
  const dates = { created_at, updated_at: said.occurredAt };
  const period = said.periodEnd &&
    { starts_at: created_at, ends_at: said.periodEnd };
  const isEnded = ["paused", "canceled"].includes(said.status);
  const price = {
    ...{ id: said.plan, product_id: money.id, type: "standard" },
    ...{ description: "Monthly", name: "Monthly", tax_mode: "account_setting" },
    billing_cycle: { interval: "month", frequency: 1 },
    trial_period: null,
    unit_price: { amount: "3000", currency_code: "USD" },
    unit_price_overrides: [],
    quantity: { minimum: 1, maximum: 999 },
    custom_data: null,
    ...{ status: "active", import_meta: null, ...dates },
  };
  const common = {
    ...{ customer_id: said.customer, address_id: "add_01hv8example" },
    ...{ business_id: null, currency_code: "USD", ...dates },
    ...{ collection_mode: "automatic", billing_details: null },
    discount: null,
    custom_data: said.account ? { accountId: said.account } : null,
  };
  const data = type.startsWith("subscription.")
    ? {
      id: said.subscription,
      status: said.status,
      ...common,
      ...{ started_at: created_at, first_billed_at: created_at },
      next_billed_at: isEnded ? null : said.periodEnd,
      paused_at: said.status === "paused" ? said.occurredAt : null,
      canceled_at: said.status === "canceled" ? said.occurredAt : null,
      current_billing_period: isEnded ? null : period,
      billing_cycle: { interval: "month", frequency: 1 },
      scheduled_change: said.cancelAt && {
        ...{ action: "cancel", effective_at: said.cancelAt, resume_at: null },
      },
      items: [{
        status: said.status === "trialing" ? "trialing" : "active",
        quantity: said.quantity,
        ...{ recurring: true, ...dates, previously_billed_at: created_at },
        next_billed_at: said.periodEnd,
        trial_dates: said.trialEnd &&
          { starts_at: created_at, ends_at: said.trialEnd },
        price,
        product: {
          ...{ ...money, name: "Example", description: null, type: "standard" },
          ...{ tax_category: "standard", image_url: null, custom_data: null },
          ...{ import_meta: null, ...dates },
        },
      }],
      import_meta: null,
    }
    : {
      id: "txn_01hv8wptq8987qeep44cyrewp9",
      status: type.endsWith("failed") ? "past_due" : "completed",
      ...common,
      origin: "subscription_recurring",
      subscription_id: type.endsWith("failed") ? said.subscription : null,
      ...{ invoice_id: null, invoice_number: null, discount_id: null },
      billing_period: period,
      items: [{ price, quantity: said.quantity, proration: null }],
      details: {
        tax_rates_used: [],
        totals: {
          ...{ subtotal: "3000", discount: "0", tax: "0", total: "3000" },
          ...{ credit: "0", balance: "3000", grand_total: "3000", fee: null },
          ...{ earnings: null, currency_code: "USD", credit_to_balance: "0" },
        },
        ...{ adjusted_totals: null, payout_totals: null, line_items: [] },
        adjusted_payout_totals: null,
      },
      payments: [],
      checkout: { url: null },
      ...{ billed_at: created_at, revised_at: null },
    };
  return {
    event_id: said.id,
    event_type: type,
    occurred_at: said.occurredAt,
    notification_id: uniqueId("ntf"),
    data,
  };
}

function polar(type: string, said: Said): JsonObject {
  const organization_id = "1dbfc517-0bbf-4301-9ba8-555ca42b9737";
  const dates = { created_at: said.startedAt, modified_at: said.occurredAt };
  const named = { organization_id, metadata: {}, ...dates };
  const customer = {
    ...{ id: said.customer, ...named, external_id: said.account || null },
    ...{ email: "user@example.com", email_verified: true, type: "individual" },
    ...{ name: null, billing_name: null, billing_address: null, tax_id: null },
    ...{ locale: null, default_payment_method_id: null, deleted_at: null },
    avatar_url: null,
  };
  const product = {
    ...{ id: said.plan, ...named, name: "Example", description: null },
    ...{ trial_interval: null, trial_interval_count: null },
    ...{ visibility: "public", is_recurring: true, is_archived: false },
    ...{ recurring_interval: "month", recurring_interval_count: 1 },
    ...{ meter_interval: null, meter_interval_count: null, prices: [] },
    ...{ benefits: [], medias: [], attached_custom_fields: [] },
  };
  const bought = {
    ...{ ...dates, metadata: {}, custom_field_data: {}, currency: "usd" },
    ...{ customer_id: said.customer, customer, product },
    ...{ product_id: said.plan, discount_id: null, discount: null },
    ...{ checkout_id: null, seats: said.quantity },
  };
  const data = type.startsWith("subscription.")
    ? {
      ...{ id: said.subscription, ...bought, amount: 3000 },
      ...{ recurring_interval: "month", recurring_interval_count: 1 },
      status: said.status,
      current_period_start: said.startedAt,
      current_period_end: said.periodEnd,
      ...{ trial_start: said.trialEnd && said.startedAt },
      trial_end: said.trialEnd,
      cancel_at_period_end: said.cancelAt !== null,
      canceled_at: said.cancelAt && said.occurredAt,
      ...{ started_at: said.startedAt, ends_at: said.cancelAt },
      ended_at: type.endsWith("revoked") ? said.occurredAt : null,
      ...{ customer_cancellation_reason: null, pending_update: null },
      ...{ customer_cancellation_comment: null, prices: [], meters: [] },
    }
    : {
      ...{ id: said.id, ...bought, status: "paid", paid: true },
      ...{ subtotal_amount: 3000, discount_amount: 0, net_amount: 3000 },
      ...{ tax_amount: 0, total_amount: 3000, refunded_amount: 0 },
      ...{ billing_reason: "purchase", subscription_id: null, items: [] },
    };
  return { type, timestamp: said.occurredAt, data };
}

function dodo(type: string, said: Said): JsonObject {
  const common = {
    ...{ brand_id: "bus_example", currency: "USD", created_at: said.startedAt },
    billing: { country: "US" },
    customer: {
      ...{ customer_id: said.customer, name: "User", metadata: {} },
      ...{ email: "user@example.com", phone_number: null },
    },
    metadata: said.account ? { accountId: said.account } : {},
  };
  const data = type.startsWith("subscription.")
    ? {
      ...{ payload_type: "Subscription", ...common, addons: [] },
      subscription_id: said.subscription,
      product_id: said.plan,
      quantity: said.quantity,
      status: said.status,
      next_billing_date: said.periodEnd,
      previous_billing_date: said.startedAt,
      cancel_at_next_billing_date: said.cancelAt !== null,
      cancelled_at: said.status === "cancelled" ? said.occurredAt : null,
      trial_period_days: said.trialEnd ? 15 : 0,
      ...{ payment_frequency_count: 1, payment_frequency_interval: "Month" },
      ...{ subscription_period_count: 1, tax_inclusive: false },
      ...{ subscription_period_interval: "Year", on_demand: false },
      ...{ recurring_pre_tax_amount: 3000, meters: [], expires_at: null },
      ...{ credit_entitlement_cart: [], meter_credit_entitlement_cart: [] },
      has_payment_method: true,
    }
    : {
      ...{ payload_type: "Payment", ...common, business_id: "bus_example" },
      payment_id: `pay_${said.id}`,
      subscription_id: type.endsWith("failed") ? said.subscription : null,
      status: type.endsWith("failed") ? "failed" : "succeeded",
      ...{ total_amount: 3000, settlement_amount: 3000, tax: 0 },
      ...{ settlement_currency: "USD", refunds: [], disputes: [] },
      ...{ digital_products_delivered: false, payment_link: null },
    };
  return {
    business_id: "bus_example",
    type,
    timestamp: said.occurredAt,
    data,
  };
}

function lemonSqueezy(type: string, said: Said): JsonObject {
  const isOf = (kind: string) => type === `subscription_${kind}`;
  const common = {
    ...{ store_id: 1, customer_id: said.customer, user_name: "User" },
    user_email: "user@example.com",
    ...{ created_at: said.startedAt, updated_at: said.occurredAt },
    test_mode: true,
  };
  const about = isOf("payment_failed")
    ? {
      ...{ type: "subscription-invoices", id: `${said.subscription}1` },
      attributes: {
        ...common,
        ...{ subscription_id: Number(said.subscription) || said.subscription },
        ...{ billing_reason: "renewal", currency: "USD", status: "pending" },
        ...{ subtotal: 3000, discount_total: 0, tax: 0, total: 3000 },
        urls: { invoice_url: "https://example.com/i?signature=1" },
      },
    }
    : type.startsWith("subscription_")
    ? {
      ...{ type: "subscriptions", id: said.subscription },
      attributes: {
        ...common,
        ...{ order_id: 1, order_item_id: 1, product_id: 501 },
        variant_id: Number(said.plan) || said.plan,
        ...{ product_name: "Example", variant_name: "Default" },
        status: said.cancelAt ? "cancelled" : said.status,
        cancelled: said.cancelAt !== null,
        pause: said.status === "paused"
          ? { mode: "void", resumes_at: null }
          : null,
        trial_ends_at: said.trialEnd,
        billing_anchor: 1,
        first_subscription_item: {
          ...{ id: 1, subscription_id: 1, price_id: 1 },
          quantity: said.quantity,
        },
        renews_at: said.periodEnd,
        ends_at: isOf("expired") ? said.occurredAt : said.cancelAt,
        urls: { customer_portal: `https://example.com/?signature=${said.id}` },
      },
    }
    : {
      ...{ type: "orders", id: "31" },
      attributes: {
        ...common,
        ...{ identifier: said.id, order_number: 1, currency: "USD" },
        ...{ total: 3000, status: "paid" },
      },
    };
  return {
    meta: {
      ...{ event_name: type, test_mode: true, webhook_id: uniqueId("wh") },
      ...(said.account && { custom_data: { account_id: said.account } }),
    },
    data: about,
  };
}
