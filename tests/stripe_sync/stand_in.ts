/** A stand-in for Stripe: an account that changes over time, and the API that shows it. */
import {
  subscriptionEvent,
  type SubscriptionEventOptions,
  type SubscriptionObject,
} from "../../scripts/events/subscription_event.ts";
import { API_VERSIONS, uniqueId } from "../../scripts/events/templates.ts";
import type { Context } from "../../scripts/stripe_sync/command.ts";
import { openStripeSource } from "../../scripts/stripe_sync/stripe_source.ts";
import { openTables } from "../../scripts/stripe_sync/tables.ts";
import { createClient } from "../../supabase/functions/_shared/billing/database/client.ts";
import { LOCAL_SECRET_KEY } from "../../supabase/functions/_shared/billing/settings/local_stack.ts";
import { serveHere } from "../support/machine.ts";
import { TEST_API_KEY } from "../support/run_script.ts";
import { setting } from "../support/test_environment.ts";

type ShownSubscription = SubscriptionObject & { created: number };

export interface Created {
  readonly id: string;
  readonly created?: number;
}

export interface StripeAccount {
  /** By id, the oldest first. */
  readonly subscriptions: Map<string, ShownSubscription>;
  /** Of which none was delivered. */
  readonly events: Map<string, Created>;
  /** The account's clock, in Unix seconds. */
  nowSeconds: number;
  change(id: string, values: object): ShownSubscription;
}

export function createStripeAccount(
  count = 0,
  valuesOf: (i: number) => SubscriptionEventOptions = () => ({}),
): StripeAccount {
  const account: StripeAccount = {
    subscriptions: new Map(),
    events: new Map(),
    nowSeconds: Math.floor(Date.now() / 1000) - 60,
    change(id, values) {
      const changed = { ...account.subscriptions.get(id)!, ...values };
      account.subscriptions.set(changed.id, changed);
      return changed;
    },
  };

  const run = uniqueId("sub");
  for (let i = 0; i < count; i++) {
    const { data: { object } } = subscriptionEvent(
      "customer.subscription.updated",
      {
        // The version that the `stripe` package asks for.
        apiVersion: API_VERSIONS[1]!,
        subscription: `${run}_${i}`,
        account: `acc_${i}`,
        plan: "price_1",
        periodEnd: 1_800_000_000,
        status: "active",
        ...valuesOf(i),
      },
    );
    const created = 1_700_000_000 + i;
    const shown = { ...object as ShownSubscription, created };
    account.subscriptions.set(shown.id, shown);
  }
  return account;
}

interface ApiOptions {
  /** The requests, by their numbers from 0, that are refused with 429. */
  readonly busy?: readonly number[];
  /** IDs that the list leaves out, as it does for test clocks. */
  readonly unlisted?: ReadonlySet<string>;
  readonly maxPage?: number;
  /** Awaited after the account was read. */
  readonly beforeAnswer?: (path: string) => Promise<void>;
  readonly key?: string;
}

export function serveStripeApi(
  account: StripeAccount,
  options: ApiOptions = {},
) {
  const { busy, beforeAnswer, key = TEST_API_KEY } = options;
  let requests = 0;

  function answer({ url, headers }: Request) {
    if (busy?.includes(requests++)) {
      return refusal(429, "Too many requests.", "rate_limit");
    }
    if (headers.get("authorization") !== `Bearer ${key}`) {
      return refusal(401, "Invalid API Key provided");
    }
    return lookUp(new URL(url), { account, ...options });
  }

  const server = serveHere(async (request) => {
    const { status, body } = answer(request);
    const text = JSON.stringify(body);
    const seconds = account.nowSeconds;
    await beforeAnswer?.(new URL(request.url).pathname);
    return new Response(text, {
      status,
      headers: {
        date: new Date(seconds * 1000).toUTCString(),
        "retry-after": "1",
      },
    });
  });
  return { ...server, requests: () => requests };
}

function refusal(status: number, message: string, code?: string) {
  const type = "invalid_request_error";
  return { status, body: { error: { type, message, code } } };
}

function lookUp(
  { pathname, searchParams: query }: URL,
  { account, maxPage = 100, unlisted }: ApiOptions & { account: StripeAccount },
): { status: number; body: unknown } {
  const [, , what, id] = pathname.split("/");
  if (id !== undefined) {
    const body = account.subscriptions.get(id);
    return body === undefined
      ? refusal(404, `No such subscription: ${id}`, "resource_missing")
      : { status: 200, body };
  }

  let items: Created[];
  if (what === "events") {
    const isDelivered = query.get("delivery_success") === "true";
    items = isDelivered ? [] : [...account.events.values()];
  } else {
    items = [...account.subscriptions.values()].filter(({ id, status }) =>
      !unlisted?.has(id) &&
      (query.get("status") === "all" || status !== "canceled")
    );
  }
  // Within a second, too, the newest is first.
  items = items.reverse().sort((one, other) =>
    (other.created ?? 0) - (one.created ?? 0)
  );

  const after = query.get("starting_after");
  const start = 1 + items.findIndex(({ id }) => id === after);
  const end = start + Math.min(Number(query.get("limit") ?? 10), maxPage);
  const data = items.slice(start, end);
  const body = { object: "list", data, has_more: end < items.length };
  return { status: 200, body };
}

export function testContext(
  stripeUrl: string,
  changes: Partial<Context> = {},
): Context {
  const { provider = "a" } = changes;
  const wait = () => Promise.resolve();
  const target = { apiKey: TEST_API_KEY, mode: "test", stripeUrl };
  const database = createClient({
    supabaseUrl: setting("TEST_API_URL"),
    secretKey: LOCAL_SECRET_KEY,
  }, { fetch });
  return {
    stripe: openStripeSource(target, wait),
    tables: openTables({ provider, database }, wait),
    provider,
    accountFrom: undefined,
    planItem: "first",
    unmappedSubscriptions: "fail",
    notify: new Set(["payment_failed"]),
    oncePerInvoice: false,
    wait,
    ...changes,
  };
}
