import { assertEquals, assertRejects } from "@std/assert";
import {
  createClient,
  type DatabaseClient,
} from "../../../supabase/functions/_shared/billing/database/client.ts";
import {
  DeliveryError,
  type ErrorCode,
} from "../../../supabase/functions/_shared/billing/errors.ts";
import type {
  Alert,
  Notification,
} from "../../../supabase/functions/billing-worker/channels/channel.ts";
import { edited } from "../../support/edited.ts";

export const NOW = 1_793_700_000;

export const CREATED = "customer.subscription.created";
export const UPDATED = "customer.subscription.updated";
export const DELETED = "customer.subscription.deleted";
export const FAILED = "invoice.payment_failed";
export const PAUSED = "customer.subscription.paused";
export const RESUMED = "customer.subscription.resumed";
export const TRIAL = "customer.subscription.trial_will_end";
export const ACTION = "invoice.payment_action_required";
export const CHECKOUT = "checkout.session.completed";

/** Returns the items of a subscription. Only the first is read. */
export function items(changes: object = {}) {
  const price = { id: "price_1", product: "prod_1" };
  const first = { id: "si_1", price, quantity: 5, ...changes };
  return { items: { object: "list", data: [first, { price: null }, "x"] } };
}

export const SUBSCRIPTION = {
  id: "sub_1",
  status: "active",
  customer: "cus_1",
  metadata: { accountId: "acc_1", other: "x" },
  ...items(),
  current_period_end: 1_796_212_800,
  cancel_at: null,
  cancel_at_period_end: false,
};

export const INVOICE = {
  id: "in_1",
  customer: "cus_1",
  subscription: "sub_1",
  hosted_invoice_url: "https://pay.example.com/in_1?a=1&b=2",
  amount_due: 1900,
  currency: "eur",
  attempt_count: 2,
  next_payment_attempt: 1_800_000_000,
};

export function stripeEvent(
  type: string,
  changes: Record<string, unknown> = {},
): object {
  const data = { object: type === FAILED ? INVOICE : SUBSCRIPTION };
  const whole = { id: "evt_1", type, created: NOW, livemode: false, data };
  return edited(whole, changes);
}

export const iso = (seconds: number) => new Date(seconds * 1000).toISOString();

export const below = (subscription: unknown) => ({
  parent: { subscription_details: { subscription } },
});

/** Asserts what is read of each given value: the whole, but for what differs. */
export function check<Given>(
  read: (given: Given) => unknown,
  whole: object,
  cases: readonly (readonly [given: Given, differs: object])[],
): void {
  for (const [given, differs] of cases) {
    assertEquals<unknown>(
      read(given),
      { ...whole, ...differs },
      String(JSON.stringify(given)).slice(0, 80),
    );
  }
}

export const ABSENT = [undefined, null];

/** What is no id: of another type, blank, not to be stored, or too long. */
export const NO_ID: unknown[] = [
  1,
  1.5,
  true,
  "",
  " \t",
  "\u00a0\u3000",
  [],
  ["LEAKED"],
  { LEAKED: 1 },
  { toString: 1 },
  "LEAKED\0",
  "LEAKED\n",
  "\u001b[2J",
  "\u007f",
  "a\u0085",
  "a\u2028b",
  "a\u2029b",
  "\ud800",
  "a\udc00b",
  "LEAKED".padEnd(256, "x"),
  "\u{1f600}".repeat(256),
  "x".repeat(100_000),
];

export const NO_TIME = [
  "1796212800",
  "LEAKED",
  [NOW],
  {},
  true,
  0,
  -1,
  1_796_212_800.5,
  NOW * 1000,
  2 ** 53,
  946_684_799,
  7_258_118_401,
];

export const NO_FURTHER = {
  notify: new Set(["payment_failed"]),
  planItem: "first" as const,
  handlerTypes: { types: new Set<string>() },
  accountFromCheckout: false,
};

/** A call of a function in the database: its name without `billing_`. */
export type Call = [name: string, body: Record<string, unknown>];

interface Sent {
  url: string;
  headers: Headers;
  signal: AbortSignal;
}

export function fakeDatabase(
  answer: (...call: [...Call, Sent]) => Response | Promise<Response>,
  secretKey = "sb_secret_unit",
): { database: DatabaseClient; calls: Call[] } {
  const calls: Call[] = [];
  const supabaseUrl = "http://database.test";
  const database = createClient({ supabaseUrl, secretKey }, {
    fetch: async (input, init) => {
      const url = String(input);
      const name = url.split("/rpc/billing_").pop() ?? "";
      const call: Call = [name, JSON.parse(String(init?.body ?? null))];
      calls.push(call);
      const headers = new Headers(init?.headers);
      const signal = init?.signal as AbortSignal;
      return await answer(...call, { url, headers, signal });
    },
  });
  return { database, calls };
}

export function hanging(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason));
  });
}

export function refusal(code: string, message = "says"): Response {
  return Response.json({ code, message }, { status: 500 });
}

export async function codeOf(work: Promise<unknown>): Promise<ErrorCode> {
  return (await assertRejects(() => work, DeliveryError)).code;
}

export const SLACK = "https://hooks.slack.com/services/T0/B0/LEAKED";

/** What a notification says of the payment if its event states everything. */
export const STATED = {
  hosted_invoice_url: INVOICE.hosted_invoice_url,
  amount_due: 1900,
  currency: "eur",
  attempt_count: 2,
  next_payment_attempt: "2026-05-03T23:30:00+00:00",
};

export const NOTIFICATION: Notification = {
  id: "00ea7bdb-ac40-475d-b354-f87fe5d7c4c1",
  provider: "a",
  event_id: "evt_1",
  invoice_id: "in_1",
  account_id: "acc_1",
  subscription_id: "sub_1",
  hosted_invoice_url: null,
  amount_due: null,
  currency: null,
  attempt_count: null,
  next_payment_attempt: null,
  kind: "payment_failed",
  trial_end: null,
  still_has_access: null,
  occurred_at: "2026-11-21T06:24:00+00:00",
  created_at: "2026-11-21T06:24:03.113987+00:00",
};

export const OPENED = {
  id: "22ea7bdb-ac40-475d-b354-f87fe5d7c4c1",
  created_at: "2026-11-21T06:25:00.113987+00:00",
  kind: "failure_opened",
  alert: {
    error_code: "account_unknown",
    error: "data.object.metadata.accountId is missing",
    open: 12,
    new: 3,
    first_failed_at: "2026-11-21T05:07:41.5+00:00",
    last_failed_at: "2026-11-21T06:24:03.113987+00:00",
    provider: "a",
    event_id: "evt_1",
    event_type: CREATED,
  },
} satisfies Alert;

export const RESOLVED: Alert = {
  id: "44ea7bdb-ac40-475d-b354-f87fe5d7c4c1",
  created_at: "2026-11-21T09:00:00.5+00:00",
  kind: "failures_resolved",
  alert: {
    error_code: "account_unknown",
    resolved: 12,
    opened_at: "2026-11-21T06:25:00.113987+00:00",
  },
};

export const UNLISTED: Alert = {
  id: "66ea7bdb-ac40-475d-b354-f87fe5d7c4c1",
  created_at: "2026-11-21T09:00:00.5+00:00",
  kind: "handler_not_listed",
  alert: {
    error_code: "handler_not_listed",
    handlers: ["billing.on_charge_refunded", "billing.on_invoice_paid"],
  },
};

export const MISSED: Alert = {
  id: "77ea7bdb-ac40-475d-b354-f87fe5d7c4c1",
  created_at: "2026-11-21T09:00:00.5+00:00",
  kind: "events_missed",
  alert: {
    error_code: "events_missed",
    provider: "b",
    missed: 28,
    types: { [FAILED]: 3, [CREATED]: 25 },
    found_until: "2026-11-21T08:59:58.113987+00:00",
  },
};

export const KEY_REFUSED: Alert = {
  id: "88ea7bdb-ac40-475d-b354-f87fe5d7c4c1",
  created_at: "2026-11-21T09:00:00.5+00:00",
  kind: "api_key_refused",
  alert: {
    error_code: "api_key_refused",
    provider: "a",
    error: "api_key_refused: The API answered 403",
  },
};

export const SWEEP_FAILED: Alert = {
  id: "99ea7bdb-ac40-475d-b354-f87fe5d7c4c1",
  created_at: "2026-11-21T09:00:00.5+00:00",
  kind: "sweep_failed",
  alert: {
    error_code: "sweep_failed",
    provider: "a",
    error: "api_unavailable: The API answered 500",
    last_success_at: "2026-11-21T05:59:41.25+00:00",
  },
};
