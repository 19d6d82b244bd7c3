/**
 * A stand-in for Stripe's API on this machine, with pages, rate limits and broken
 * connections. Stripe's own package calls it.
 *
 * @module
 */
import {
  createServer,
  type IncomingMessage,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { TEST_API_KEY } from "../support/run_script.ts";
import type { StripeAccount } from "./stripe_account.ts";

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

/** The stand-in. */
export interface StripeApi extends AsyncDisposable {
  readonly url: string;
  /** The path and query of each request, and how it failed. */
  readonly requests: { readonly path: string; readonly fault?: Fault }[];
}

/**
 * Serves an account on a free port.
 *
 * @param options.fault How a request fails, by its number from 0.
 * @param options.unlisted IDs that the list leaves out, as it does for test clocks.
 * @param options.maxPage The longest page, even if the request asks for more.
 * @param options.beforeAnswer Awaited after the account was read.
 */
export async function serveStripeApi(
  account: StripeAccount,
  {
    fault = () => undefined,
    unlisted = new Set(),
    maxPage = 100,
    beforeAnswer,
    key = TEST_API_KEY,
  }: {
    fault?: (request: number) => Fault | undefined;
    unlisted?: ReadonlySet<string>;
    maxPage?: number;
    beforeAnswer?: (path: string) => Promise<void> | void;
    key?: string;
  } = {},
): Promise<StripeApi> {
  const requests: { path: string; fault?: Fault }[] = [];

  async function answer(request: IncomingMessage, response: ServerResponse) {
    const path = request.url ?? "";
    const wrong = fault(requests.length);
    requests.push({ path, ...(wrong === undefined ? {} : { fault: wrong }) });
    if (wrong === "dropped") return void request.socket.destroy();

    const url = new URL(path, "http://stripe.test");
    const isAllowed = request.headers.authorization === `Bearer ${key}`;
    const { status, body } = wrong !== undefined && wrong !== "cut off"
      ? faultAnswer(wrong)
      : isAllowed
      ? lookUp(url, { account, maxPage, unlisted })
      : refusal(401, "Invalid API Key provided");
    const bytes = new TextEncoder().encode(JSON.stringify(body));
    const date = new Date(account.nowSeconds * 1000).toUTCString();
    await beforeAnswer?.(path);
    response.sendDate = false;
    response.writeHead(status, {
      "content-type": "application/json",
      "content-length": bytes.length,
      date,
      ...(wrong === "busy" ? { "retry-after": "1" } : {}),
    });
    if (wrong !== "cut off") return void response.end(bytes);
    response.write(bytes.subarray(0, bytes.length / 2));
    setTimeout(() => request.socket.destroy(), 20);
  }

  const server = createServer((request, response) => {
    answer(request, response).catch((error) => {
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

type Answered = { status: number; body: unknown };

function faultAnswer(fault: Fault): Answered {
  return fault === "broken"
    ? {
      status: 503,
      body: { error: { type: "api_error", message: "Broken." } },
    }
    : refusal(429, "Too many requests.", "rate_limit");
}

function refusal(status: number, message: string, code?: string): Answered {
  const type = "invalid_request_error";
  return { status, body: { error: { type, message, code } } };
}

function lookUp(
  url: URL,
  { account, maxPage, unlisted }: {
    account: StripeAccount;
    maxPage: number;
    unlisted: ReadonlySet<string>;
  },
): Answered {
  const { pathname, searchParams: query } = url;
  const [, , what, id] = pathname.split("/");
  if (what === "events") {
    const types = [...query.entries()]
      .filter(([name]) => name.startsWith("types"))
      .map(([, value]) => value);
    if (query.get("delivery_success") !== "false" || types.length === 0) {
      return refusal(400, "The stand-in shows undelivered events by type.");
    }
    const events = [...account.events.values()]
      .filter((event) =>
        types.includes(event.type) && !account.delivered.has(event.id)
      );
    return pageOf(events, { query, maxPage });
  }
  if (what !== "subscriptions") return refusal(404, `No ${pathname} here.`);
  if (id === undefined) {
    const subscriptions = [...account.subscriptions.values()]
      .filter(({ id, status }) =>
        !unlisted.has(id) &&
        (query.get("status") === "all" || status !== "canceled")
      );
    return pageOf(subscriptions, { query, maxPage });
  }
  const found = account.subscriptions.get(id);
  return found === undefined
    ? refusal(404, `No such subscription: ${id}`, "resource_missing")
    : { status: 200, body: found };
}

/** The newest first, as in Stripe's lists. */
function pageOf(
  items: { id: string; created?: number }[],
  { query, maxPage }: { query: URLSearchParams; maxPage: number },
): Answered {
  const limit = Math.min(Number(query.get("limit") ?? 10), maxPage);
  const sorted = items
    .map((item, index) => ({ item, index }))
    .sort((one, other) =>
      (other.item.created ?? 0) - (one.item.created ?? 0) ||
      other.index - one.index
    )
    .map(({ item }) => item);
  const after = query.get("starting_after");
  const start = after === null
    ? 0
    : 1 + sorted.findIndex(({ id }) => id === after);
  if (after !== null && start === 0) {
    return refusal(400, `No such object: ${after}`, "resource_missing");
  }
  const data = sorted.slice(start, start + limit);
  return {
    status: 200,
    body: { object: "list", data, has_more: start + limit < sorted.length },
  };
}
