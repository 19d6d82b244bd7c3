/**
 * A stand-in for Stripe on this machine: an account whose subscriptions change
 * over time, and the API that shows it, with pages, rate limits and broken
 * connections. Stripe's own package calls it.
 *
 * @module
 */
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type {
  StripeEvent,
  SubscriptionObject,
} from "../../scripts/events/event_types.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import type { Context } from "../../scripts/stripe_sync/context.ts";
import { openStripeSource } from "../../scripts/stripe_sync/stripe_source.ts";
import { openTables } from "../../scripts/stripe_sync/tables.ts";
import { createClient } from "../../supabase/functions/_shared/billing/database.ts";
import { LOCAL_SECRET_KEY } from "../../supabase/functions/billing-webhook/local_stack.ts";
import { eventBody } from "../property/histories/event_body.ts";
import type { HistoryEvent, Values } from "../property/histories/history.ts";
import { TEST_API_KEY } from "../support/run_script.ts";
import { setting } from "../support/test_environment.ts";

/** A subscription as the API shows it. */
export type ShownSubscription = SubscriptionObject & {
  created: number;
  livemode: boolean;
  customer: string;
};

/** A Stripe account. */
export interface StripeAccount {
  /** By id, the oldest first. */
  readonly subscriptions: Map<string, ShownSubscription>;
  readonly events: Map<string, StripeEvent>;
  /** The IDs of the acknowledged events. */
  readonly delivered: Set<string>;
  /** The account's clock, in Unix seconds. */
  nowSeconds: number;
  /** Changes the account as an event says, and sets the clock to its time. */
  happen(event: HistoryEvent): void;
  /** Changes a subscription, without an event; returns it. */
  change(id: string, values: object): ShownSubscription;
}

/** The version that the `stripe` package asks for. */
const API_VERSION = "2026-10-28.endive";

/** Returns an account with a number of subscriptions, of acc_0, acc_1 and so on. */
export function createStripeAccount(
  count = 0,
  valuesOf: (i: number) => Partial<Values> = () => ({}),
): StripeAccount {
  const account: StripeAccount = {
    subscriptions: new Map(),
    events: new Map(),
    delivered: new Set(),
    nowSeconds: count === 0 ? 0 : Math.floor(Date.now() / 1000) - 60,
    happen(event) {
      account.nowSeconds = Math.max(account.nowSeconds, event.created);
      account.events.set(event.id, eventBody(event) as StripeEvent);
      if (event.type === "invoice.payment_failed") return;
      const { created } = account.subscriptions.get(event.subscription) ??
        event;
      show(event, created);
    },
    change(id, values) {
      const changed = { ...account.subscriptions.get(id)!, ...values };
      account.subscriptions.set(changed.id, changed);
      return changed;
    },
  };
  function show(
    { type, subscription, account: owner, values }:
      & Pick<HistoryEvent, "type" | "subscription" | "account">
      & { values: Partial<Values> },
    created: number,
  ) {
    const { data: { object } } = subscriptionEvent(
      "customer.subscription.updated",
      { apiVersion: API_VERSION, subscription, account: owner, ...values },
    );
    const status = type === "customer.subscription.deleted"
      ? "canceled"
      : values.status ?? "active";
    const shown = { ...object as ShownSubscription, created, status };
    account.subscriptions.set(subscription, shown);
  }
  const run = uniqueId("sub");
  for (let i = 0; i < count; i++) {
    const values = {
      plan: "price_1",
      periodEnd: 1_800_000_000,
      ...valuesOf(i),
    };
    const type = "customer.subscription.updated";
    const subscription = `${run}_${i}`;
    show(
      { type, subscription, account: `acc_${i}`, values },
      1_700_000_000 + i,
    );
  }
  return account;
}

/** How a request may fail. */
export type Fault =
  /** 429 with `Retry-After: 1`. */
  | "busy"
  /** 429 without it. */
  | "busy, no hint"
  | "broken"
  /** The connection is closed without an answer. */
  | "dropped"
  /** The connection is closed in the middle of the answer. */
  | "cut off";

/** The API. */
export interface StripeApi extends AsyncDisposable {
  readonly url: string;
  /** The path and query of each request. */
  readonly requests: readonly string[];
}

interface ApiOptions {
  /** How requests fail, by their numbers from 0. */
  readonly faults?: ReadonlyMap<number, Fault>;
  /** IDs that the list leaves out, as it does for test clocks. */
  readonly unlisted?: ReadonlySet<string>;
  /** The longest page, even if the request asks for more. */
  readonly maxPage?: number;
  /** Awaited after the account was read. */
  readonly beforeAnswer?: (path: string) => Promise<void> | void;
  readonly key?: string;
  /** How far the clock of what answers is ahead of the account's. */
  readonly clockAheadSeconds?: number;
}

/** Serves an account on a free port. */
export async function serveStripeApi(
  account: StripeAccount,
  options: ApiOptions = {},
): Promise<StripeApi> {
  const { faults, beforeAnswer, key = TEST_API_KEY, clockAheadSeconds = 0 } =
    options;
  const requests: string[] = [];

  async function answer(
    { path, authorization }: { path: string; authorization?: string },
    response: ServerResponse,
  ): Promise<void> {
    const fault = faults?.get(requests.length);
    requests.push(path);
    if (fault === "dropped") return void response.destroy();
    const { status, body } = fault === "broken"
      ? refusal(503, "Broken.")
      : fault?.startsWith("busy")
      ? refusal(429, "Too many requests.", "rate_limit")
      : authorization !== `Bearer ${key}`
      ? refusal(401, "Invalid API Key provided")
      : lookUp(new URL(path, "http://stripe.test"), { account, ...options });
    const bytes = new TextEncoder().encode(JSON.stringify(body));
    const seconds = account.nowSeconds + clockAheadSeconds;
    await beforeAnswer?.(path);
    response.sendDate = false;
    response.writeHead(status, {
      "content-type": "application/json",
      "content-length": bytes.length,
      date: new Date(seconds * 1000).toUTCString(),
      ...(fault === "busy" && { "retry-after": "1" }),
    });
    if (fault !== "cut off") return void response.end(bytes);
    response.write(
      bytes.subarray(0, bytes.length / 2),
      () => response.destroy(),
    );
  }

  const server = createServer(({ url: path = "", headers }, response) => {
    const { authorization = "" } = headers;
    answer({ path, authorization }, response).catch((error) => {
      console.error(error);
      response.destroy();
    });
  });
  await new Promise<void>((resolve) =>
    server.listen(0, "127.0.0.1", () => resolve())
  );
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    [Symbol.asyncDispose]: () =>
      // Not awaited: it waits for connections that were broken on purpose.
      Promise.resolve(void server.close().closeAllConnections()),
  };
}

function refusal(status: number, message: string, code?: string) {
  const type = status === 503 ? "api_error" : "invalid_request_error";
  return { status, body: { error: { type, message, code } } };
}

/** The newest first, as in Stripe's lists. */
function lookUp(
  { pathname, searchParams: query }: URL,
  { account, maxPage = 100, unlisted }: ApiOptions & { account: StripeAccount },
): { status: number; body: unknown } {
  const [, , what, id] = pathname.split("/");
  let items: { id: string; created?: number }[];
  if (id !== undefined) {
    const body = account.subscriptions.get(id);
    return body === undefined
      ? refusal(404, `No such subscription: ${id}`, "resource_missing")
      : { status: 200, body };
  } else if (what === "events") {
    const types = [...query].filter(([name]) => name.startsWith("types"))
      .map(([, value]) => value);
    if (query.get("delivery_success") !== "false" || types.length === 0) {
      return refusal(400, "The stand-in shows undelivered events by type.");
    }
    items = [...account.events.values()].filter(({ id, type }) =>
      types.includes(type) && !account.delivered.has(id)
    );
  } else {
    items = [...account.subscriptions.values()].filter(({ id, status }) =>
      !unlisted?.has(id) &&
      (query.get("status") === "all" || status !== "canceled")
    );
  }
  // What was created in the same second is also the newest first.
  items = items.reverse().sort((one, other) =>
    (other.created ?? 0) - (one.created ?? 0)
  );
  const after = query.get("starting_after");
  const start = 1 + items.findIndex(({ id }) => id === after);
  if (after !== null && start === 0) {
    return refusal(400, `No such object: ${after}`, "resource_missing");
  }
  const end = start + Math.min(Number(query.get("limit") ?? 10), maxPage);
  const data = items.slice(start, end);
  const body = { object: "list", data, has_more: end < items.length };
  return { status: 200, body };
}

/** Returns what the commands work with, for use in this process, without waits. */
export function testContext(
  stripeUrl: string,
  changes: Partial<Context> = {},
): Context {
  const wait = () => Promise.resolve();
  const target = { apiKey: TEST_API_KEY, mode: "test", stripeUrl } as const;
  const database = createClient({
    supabaseUrl: setting("TEST_API_URL"),
    secretKey: LOCAL_SECRET_KEY,
  }, { fetch });
  return {
    stripe: openStripeSource(target, wait),
    tables: openTables(
      { provider: "a", oncePerInvoice: false, database },
      wait,
    ),
    provider: "a",
    accountFrom: undefined,
    unmappedSubscriptions: "fail",
    wait,
    onProgress: () => {},
    signal: new AbortController().signal,
    ...changes,
  };
}
