/**
 * Stand-ins for the APIs that list Stripe's and Paddle's events. After each page, a new
 * event is there.
 *
 * @see https://docs.stripe.com/api/events/list
 * @see https://docs.stripe.com/rate-limits
 * @see https://developer.paddle.com/api-reference/events/list-events
 * @see https://developer.paddle.com/api-reference/about/pagination
 * @see https://developer.paddle.com/errors/shared/too_many_requests
 */
import { providerEvent } from "../../scripts/events/provider_events.ts";
import {
  subscriptionEvent,
  type SubscriptionEventType,
} from "../../scripts/events/subscription_event.ts";
import {
  API_VERSIONS,
  invoiceEvent,
  type JsonObject,
  paymentEvent,
  uniqueId,
} from "../../scripts/events/templates.ts";
import { serveHere } from "./machine.ts";

const SECOND = 1000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

export const LISTING_FORMATS = {
  stripe: {
    key: "rk_test_standin",
    keeps: 30 * DAY,
    page: stripePage,
    types: {
      created: "customer.subscription.created",
      updated: "customer.subscription.updated",
      failed: "invoice.payment_failed",
      ended: "customer.subscription.deleted",
      bought: "checkout.session.completed",
    },
  },
  paddle: {
    key: "pdl_sdbx_standin",
    keeps: 90 * DAY,
    page: paddlePage,
    types: {
      created: "subscription.created",
      updated: "subscription.updated",
      failed: "transaction.payment_failed",
      ended: "subscription.canceled",
      bought: "transaction.completed",
    },
  },
} as const;

export type ListingFormat = keyof typeof LISTING_FORMATS;
export type What = keyof typeof LISTING_FORMATS["stripe"]["types"];

export interface ListedEvent {
  readonly id: string;
  readonly type: string;
  readonly atMs: number;
  readonly body: JsonObject;
}

interface Facts {
  readonly subscription?: string;
  readonly account?: string;
}

/** What is now for the events: they are made so long before. */
export const clock = { now: Date.now() };

let made = 0;

/** Makes an event, in every other case of Stripe's older API version. */
function makeEvent(
  format: ListingFormat,
  what: What,
  agoMs: number,
  { subscription = uniqueId("sub"), account = "acc_1" }: Facts,
): ListedEvent {
  const type = LISTING_FORMATS[format].types[what];
  const of = { subscription, account };
  const atMs = clock.now - agoMs;
  if (format === "paddle") {
    // By the time at which it is stored, which is not the order of what happened.
    const storedAt = Math.floor(atMs) + (made++ * 7) % 20;
    const id = `evt_01${storedAt.toString(32)}${uniqueId("")}`;
    const occurredAt = new Date(atMs).toISOString();
    const body = providerEvent("paddle", type, { ...of, id, occurredAt });
    return { id, type, atMs, body };
  }

  const created = Math.floor(atMs / SECOND);
  const options = { ...of, created, apiVersion: API_VERSIONS[made++ % 2]! };
  const body = what === "failed"
    ? invoiceEvent(options)
    : what === "bought"
    ? paymentEvent("checkout.session.completed", options)
    : subscriptionEvent(type as SubscriptionEventType, options);
  return { id: body.id, type, atMs: created * SECOND, body: { ...body } };
}

export function refusal(status: number, headers: HeadersInit = {}): Response {
  const error = { message: `This is ${status}` };
  return Response.json({ error }, { status, headers });
}

export function createEventApi(format: ListingFormat) {
  const { key, types, page, keeps } = LISTING_FORMATS[format];
  const api = {
    key,
    types,
    events: [] as ListedEvent[],
    requests: [] as URL[],
    /** What the next requests get instead of their pages, unless undefined. */
    faults: [] as (Response | undefined)[],
    /** The longest page, whatever the request asks for. */
    maxPage: 7,
    unknownTypes: new Set<string>(),
    make(what: What, agoMs = 0, facts: Facts = {}): ListedEvent {
      const event = makeEvent(format, what, agoMs, facts);
      api.events.push(event);
      return event;
    },

    answer({ url, method, headers }: Request): Response {
      api.requests.push(new URL(url));
      const fault = api.faults.shift();
      if (fault) return fault;
      if (headers.get("authorization") !== `Bearer ${key}`) return refusal(401);
      if (method !== "GET") return refusal(405);

      const kept = api.events.filter(({ atMs }) => atMs > Date.now() - keeps);
      const answer = page(new URL(url), kept, api);
      api.make("bought");
      return answer;
    },
  };
  return api;
}

/** As `fetch`, without a server. */
export function fetchFrom(
  { answer }: ReturnType<typeof createEventApi>,
): typeof fetch {
  return (...request) => Promise.resolve(answer(new Request(...request)));
}

export function serveEventApi(format: ListingFormat) {
  const api = createEventApi(format);
  const server = serveHere(api.answer);
  const env = {
    PROVIDER_A_FORMAT: format,
    PROVIDER_A_API_KEY: api.key,
    PROVIDER_A_API_URL: server.url,
  };
  return { ...server, api, env };
}

interface Limits {
  readonly maxPage: number;
  readonly unknownTypes: ReadonlySet<string>;
}

/** Lists the newest first; of one second, the last made. */
function stripePage(
  { pathname, searchParams: query }: URL,
  kept: readonly ListedEvent[],
  { maxPage, unknownTypes }: Limits,
): Response {
  const types = query.getAll("types[]");
  const limit = Number(query.get("limit") ?? 10);
  const isRefused = types.length > 20 || limit > 100 ||
    types.some((type) => unknownTypes.has(type));
  if (pathname !== "/v1/events") return refusal(404);
  if (isRefused) return refusal(400);

  const from = Number(query.get("created[gte]") ?? 0) * SECOND;
  const to = Number(query.get("created[lt]") ?? Infinity) * SECOND;
  const found = kept
    .filter(({ type, atMs }) =>
      (types.length === 0 || types.includes(type)) && atMs >= from && atMs < to
    )
    .reverse().sort((one, other) => other.atMs - one.atMs);

  const after = query.get("starting_after");
  const cursor = found.findIndex(({ id }) => id === after);
  if (after !== null && cursor === -1) return refusal(400);
  const left = found.slice(cursor + 1);
  const data = left.slice(0, Math.min(limit, maxPage)).map(({ body }) => body);
  const has_more = data.length < left.length;
  return Response.json({ object: "list", data, has_more });
}

function paddlePage(
  { pathname, searchParams: query }: URL,
  kept: readonly ListedEvent[],
  { maxPage }: Limits,
): Response {
  const after = query.get("after") ?? "";
  const isRefused = query.get("order_by") !== "id[ASC]" ||
    !/^(?:evt_|$)/.test(after);
  if (pathname !== "/events") return refusal(404);
  if (isRefused) return refusal(400);

  const left = kept.filter(({ id }) => id > after)
    .sort((one, other) => one.id < other.id ? -1 : 1);
  const per_page = Math.min(Number(query.get("per_page")), 200, maxPage);
  const data = left.slice(0, per_page).map(({ body }) => body);
  const has_more = data.length < left.length;
  return Response.json({ data, meta: { pagination: { per_page, has_more } } });
}
