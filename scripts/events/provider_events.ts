/** Realistic events of each provider, and the types and statuses that they may have. */
import {
  type FormatName,
  FORMATS,
} from "../../supabase/functions/_shared/billing/events/formats.ts";
import * as bodies from "./provider_bodies.ts";
import { EVENT_TYPES, type JsonObject, uniqueId } from "./templates.ts";

export type ProviderEventOptions = Partial<
  Omit<bodies.EventFacts, "startedAt">
>;

/**
 * `types` ends with one that people write a handler for. `words` are for statuses that
 * the receiver stores in Stripe's words.
 */
export const PROVIDERS = {
  paddle: {
    build: bodies.paddle,
    types: [...Object.keys(FORMATS.paddle.kinds), "transaction.completed"],
    subscription: "sub_01hv8x29kz0t586xy6zn1a62ny",
    plan: "pri_01gsz8x8sawmvhz1pv30nge1ke",
    statuses: ["active", "trialing", "past_due", "paused", "canceled"],
    words: {},
  },
  polar: {
    build: bodies.polar,
    types: [...Object.keys(FORMATS.polar.kinds), "order.paid"],
    subscription: "e5149aae-e521-42b9-b24c-abb3d71eea2e",
    plan: "d8dd2de1-21b7-4a41-8bc3-ce909c0cfe23",
    statuses: [
      "incomplete",
      "incomplete_expired",
      "trialing",
      "active",
      "past_due",
      "canceled",
      "unpaid",
      "paused",
    ],
    words: {},
  },
  dodo: {
    build: bodies.dodo,
    types: [...Object.keys(FORMATS.dodo.kinds), "payment.succeeded"],
    subscription: "sub_Xk2lZ0example01",
    plan: "pdt_Xk2lZ0example01",
    statuses: [
      "pending",
      "active",
      "past_due",
      "on_hold",
      "paused",
      "cancelled",
      "expired",
      "failed",
    ],
    words: {
      incomplete: "pending",
      canceled: "cancelled",
      incomplete_expired: "expired",
    },
  },
  "lemon-squeezy": {
    build: bodies.lemonSqueezy,
    types: [...Object.keys(FORMATS["lemon-squeezy"].kinds), "order_created"],
    subscription: "4021",
    plan: "7301",
    statuses: [
      "on_trial",
      "active",
      "paused",
      "past_due",
      "unpaid",
      "cancelled",
      "expired",
    ],
    words: { trialing: "on_trial" },
  },
};

export function eventTypesOf(format: FormatName): readonly string[] {
  return format === "stripe" ? EVENT_TYPES : PROVIDERS[format].types;
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
    subscription,
    plan,
    quantity: 1,
    account: null,
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

/** Returns the status that a type's name implies. */
export function statusOfType(provider: Provider, type: string): string {
  const [, word] = /[._]([a-z]+(?:_(?:due|hold))?)$/.exec(type) ?? [];
  const { statuses } = PROVIDERS[provider];
  if (word === "revoked") return "canceled";
  return statuses.find((status) => status === word) ?? "active";
}
