/**
 * A stand-in for a sandbox of Stripe's, written from the types of Stripe's package and its
 * documentation: what a rehearsal calls, and the webhooks that follow from it. They are
 * signed by Stripe's package, and arrive late, twice and out of order.
 */
import Stripe from "stripe";
import { API_VERSIONS } from "../../scripts/events/templates.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { serveHere } from "../support/machine.ts";
import { TEST_API_KEY } from "../support/run_script.ts";

type Fields = Record<string, unknown>;
type Thing = Fields & { id: string };

export interface Endpoint {
  readonly url: string;
  readonly secret: string;
  /** By default, all events. */
  readonly enabled_events?: readonly string[];
  readonly api_version?: typeof API_VERSIONS[number];
  readonly status?: "enabled" | "disabled";
  /** How far Stripe's clock is ahead of the receiver's. */
  readonly aheadSeconds?: number;
}

interface SandboxOptions {
  readonly endpoints: readonly Endpoint[];
  /** Called after a request has been carried out, before it is answered. */
  readonly onRequest?: (request: string) => void | Promise<void>;
  /** Paths that are refused with 400. */
  readonly refused?: RegExp;
}

const MONTH_SECONDS = 30 * 86_400;

/** The first events wait for those behind them. Each is sent again. */
const DELAYS_MS = [120, 0, 60, 10];
const TWICE_AFTER_MS = 90;
/** Without a 2xx, Stripe sends an event again, in a sandbox three times. */
const RETRIES_MS = [200, 400, 800];

const BAD_CARD = "pm_card_chargeCustomerFail";

export function serveSandbox(
  { endpoints, onRequest, refused }: SandboxOptions,
) {
  const things = new Map<string, Thing>();
  const events: (Thing & { created: number; type: string })[] = [];
  const answered = new Map<string, { status: number; body: unknown }>();
  const requests: string[] = [];
  const sending = new Set<Promise<void>>();
  const { webhooks } = new Stripe(TEST_API_KEY);

  function store<T extends Thing>(thing: T): T {
    things.set(thing.id, thing);
    return thing;
  }

  function add(object: string, prefix: string, fields: Fields): Thing {
    const base = { object, created: now(), livemode: false, active: true };
    return store({ ...base, id: uniqueId(prefix), ...fields });
  }

  function all(object: string): Thing[] {
    return [...things.values()].filter((thing) => thing.object === object);
  }

  function emit(type: string, object: Thing, previous_attributes?: Fields) {
    const receivers = endpoints.filter(({ enabled_events = [type], status }) =>
      status !== "disabled" && enabled_events.includes(type)
    );
    const event = {
      id: uniqueId("evt"),
      object: "event",
      api_version: API_VERSIONS[1],
      created: now(),
      livemode: false,
      pending_webhooks: receivers.length,
      type,
      data: { object: structuredClone(object), previous_attributes },
    };
    events.unshift(event);
    const delayMs = DELAYS_MS[events.length % DELAYS_MS.length]!;
    for (const endpoint of receivers) {
      const sent = deliver(event, endpoint, delayMs)
        .finally(() => sending.delete(sent));
      sending.add(sent);
    }
  }

  async function deliver(
    event: Thing & { pending_webhooks: number; data: Fields },
    endpoint: Endpoint,
    delayMs: number,
  ) {
    await sleep(delayMs);
    for (const retryMs of [...RETRIES_MS, undefined]) {
      if (await post(event, endpoint)) {
        event.pending_webhooks--;
        await sleep(TWICE_AFTER_MS);
        return void await post(event, endpoint);
      }
      if (retryMs !== undefined) await sleep(retryMs);
    }
  }

  async function post(
    event: Thing & { data: Fields },
    { url, secret, api_version = API_VERSIONS[1], aheadSeconds = 0 }: Endpoint,
  ): Promise<boolean> {
    const payload = JSON.stringify(
      {
        ...event,
        api_version,
        data: inShapeOf(api_version, event.data),
      },
      null,
      2,
    );
    const timestamp = now() + aheadSeconds;
    const signed = { payload, secret, timestamp };
    const signature = await webhooks.generateTestHeaderStringAsync(signed);
    const response = await fetch(url, {
      method: "POST",
      headers: {
        "content-type": "application/json; charset=utf-8",
        "stripe-signature": signature,
        "user-agent": "Stripe/1.0 (+https://stripe.com/docs/webhooks)",
      },
      body: payload,
    }).catch(() => undefined);
    await response?.body?.cancel();
    return response?.ok ?? false;
  }

  function change(
    subscription: Thing,
    changes: Fields,
    type = "customer.subscription.updated",
  ): Thing {
    const changed = Object.entries(changes).filter(([name, value]) =>
      JSON.stringify(value) !== JSON.stringify(subscription[name])
    );
    const previous = Object.fromEntries(
      changed.map(([name]) => [name, structuredClone(subscription[name])]),
    );
    Object.assign(subscription, changes);
    const isUpdate = type.endsWith("updated");
    if (changed.length > 0 || !isUpdate) {
      emit(type, subscription, isUpdate ? previous : undefined);
    }
    return subscription;
  }

  /** Makes an invoice of the subscription, and charges its card. */
  function charge(subscription: Thing, reason: string): boolean {
    const { id, customer, metadata, default_payment_method: card } =
      subscription;
    const details = { subscription: id, metadata };
    const invoice = add("invoice", "in", {
      customer,
      amount_due: 2_000,
      attempt_count: 1,
      billing_reason: reason,
      currency: "usd",
      lines: { object: "list", data: [], has_more: false },
      parent: { type: "subscription_details", subscription_details: details },
      next_payment_attempt: now() + 3 * 86_400,
      status: "open",
    });
    subscription.latest_invoice = invoice.id;
    const isPaid = things.get(String(card))?.card !== BAD_CARD;
    emit(isPaid ? "invoice.paid" : "invoice.payment_failed", invoice);
    return isPaid;
  }

  function itemOf(fields: Fields, before?: Thing): Thing {
    const price = things.get(String(fields.price))!;
    const { product, recurring } = price;
    return {
      id: uniqueId("si"),
      object: "subscription_item",
      current_period_start: now(),
      current_period_end: now() + MONTH_SECONDS,
      ...before,
      price: { id: price.id, object: "price", product, recurring },
      quantity: Number(fields.quantity ?? 1),
    };
  }

  function listOf(item: Thing) {
    return { object: "list", data: [item], has_more: false };
  }

  function createSubscription(fields: Fields): Thing {
    const [{ price, quantity }] = fields.items as [Fields];
    const subscription = add("subscription", "sub", {
      cancel_at: null,
      cancel_at_period_end: false,
      pause_collection: null,
      status: "incomplete",
      ...fields,
      items: listOf(itemOf({ price, quantity })),
    });
    emit("customer.subscription.created", subscription);
    const isPaid = charge(subscription, "subscription_create");
    return isPaid ? change(subscription, { status: "active" }) : subscription;
  }

  function updateSubscription(subscription: Thing, fields: Fields): Thing {
    const { items, ...others } = fields;
    const [item] = (subscription.items as { data: [Thing] }).data;
    const changes: Fields = {};
    for (
      const name of ["default_payment_method", "pause_collection"] as const
    ) if (name in others) changes[name] = others[name] || null;

    if ("cancel_at_period_end" in others) {
      const isEnding = others.cancel_at_period_end === "true";
      changes.cancel_at_period_end = isEnding;
      changes.cancel_at = isEnding ? item.current_period_end : null;
    }
    if (items) changes.items = listOf(itemOf((items as [Fields])[0], item));
    if (others.billing_cycle_anchor) {
      const card = { default_payment_method: changes.default_payment_method };
      Object.assign(subscription, card);
      const isPaid = charge(subscription, "subscription_update");
      changes.status = isPaid ? "active" : "past_due";
    }
    return change(subscription, changes);
  }

  function cancel(subscription: Thing): Thing {
    const ended = { status: "canceled", canceled_at: now(), ended_at: now() };
    return change(subscription, ended, "customer.subscription.deleted");
  }

  function subscriptionOf(invoice: Thing): Thing {
    const { id } = all("subscription")
      .find(({ latest_invoice }) => latest_invoice === invoice.id)!;
    return things.get(id)!;
  }

  function carryOut(
    method: string,
    [what = "", id = "", action = ""]: readonly string[],
    fields: Fields,
  ): unknown {
    const thing = things.get(id);
    const needsThing = id !== "" && what !== "payment_methods";
    if (needsThing && !thing) throw missing(id);
    switch (`${method} ${what}${id && "/:id"}${action && `/${action}`}`) {
      case "POST products":
        return add("product", "prod", fields);
      case "POST prices":
        return add("price", "price", fields);
      case "POST products/:id":
      case "POST prices/:id":
        return Object.assign(thing!, { active: fields.active === "true" });
      case "POST customers":
        return add("customer", "cus", fields);
      case "DELETE customers/:id":
        for (const subscription of all("subscription")) {
          const isOpen = subscription.status !== "canceled";
          if (subscription.customer === id && isOpen) cancel(subscription);
        }
        things.delete(id);
        return { id, object: "customer", deleted: true };
      case "POST payment_methods/:id/attach":
        return add("payment_method", "pm", { card: id, ...fields });
      case "POST subscriptions":
        return createSubscription(fields);
      case "GET subscriptions/:id":
        return thing;
      case "POST subscriptions/:id":
        return updateSubscription(thing!, fields);
      case "DELETE subscriptions/:id":
        return cancel(thing!);
      case "POST subscriptions/:id/pause":
        return change(
          thing!,
          { status: "paused" },
          "customer.subscription.paused",
        );
      case "POST subscriptions/:id/resume":
        return change(
          thing!,
          { status: "active" },
          "customer.subscription.resumed",
        );
      case "POST invoices/:id/pay":
        change(subscriptionOf(thing!), { status: "active" });
        return Object.assign(thing!, { status: "paid" });
      case "GET customers":
      case "GET prices": {
        const data = all(what.slice(0, -1)).filter((thing) =>
          Object.entries(fields).every(([name, value]) =>
            `${thing[name]}` === value
          )
        );
        return page(data);
      }
      case "GET events": {
        const { types, created } = fields as {
          types: string[];
          created: Fields;
        };
        const data = events.filter((event) =>
          types.includes(event.type) && event.created >= Number(created.gte)
        );
        return page(data);
      }
      case "GET webhook_endpoints":
        return page(endpoints.map(({ secret: _, ...endpoint }, i) => ({
          id: `we_${i}`,
          livemode: false,
          status: "enabled",
          enabled_events: ["*"],
          ...endpoint,
        })));
    }
    throw new Error(`The stand-in does not know ${method} ${what}/${action}`);
  }

  async function answer(request: Request) {
    const { pathname, search } = new URL(request.url);
    const text = await request.text();
    if (request.headers.get("authorization") !== `Bearer ${TEST_API_KEY}`) {
      return { status: 401, body: { error: { message: "Invalid API Key" } } };
    }
    const key = request.headers.get("idempotency-key") ?? "";
    const known = answered.get(key);
    if (known) return known;

    const path = pathname.split("/").slice(2);
    const fields = parseForm(text || search.slice(1));
    let reply: { status: number; body: unknown };
    try {
      if (refused?.test(pathname)) throw new Error(`${pathname} is refused`);
      reply = { status: 200, body: carryOut(request.method, path, fields) };
    } catch (error) {
      const { message, cause: code } = error as Error;
      const type = "invalid_request_error";
      reply = {
        status: code ? 404 : 400,
        body: { error: { type, code, message } },
      };
    }
    if (key) answered.set(key, structuredClone(reply));
    return reply;
  }

  const server = serveHere(async (request) => {
    const { status, body } = await answer(request);
    const text = JSON.stringify(body);
    const line = `${request.method} ${new URL(request.url).pathname}`;
    requests.push(line);
    await onRequest?.(line);
    return new Response(text, { status });
  });
  return {
    url: server.url,
    requests,
    events,
    /** Returns what a rehearsal should have deleted. */
    left: () =>
      [
        ...all("customer"),
        ...all("subscription").filter(({ status }) => status !== "canceled"),
        ...[...all("product"), ...all("price")].filter(({ active }) => active),
      ].map(({ id }) => id),
    [Symbol.asyncDispose]: async () => {
      await server[Symbol.asyncDispose]();
      await Promise.all(sending);
    },
  };
}

function now(): number {
  return Math.floor(Date.now() / 1000);
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function missing(id: string): Error {
  return new Error(`No such object: ${id}`, { cause: "resource_missing" });
}

function page(data: readonly unknown[]) {
  return { object: "list", data, has_more: false };
}

/** Parses `items[0][price]=price_1` and such, as Stripe's package sends them. */
function parseForm(text: string): Fields {
  const result: Fields = {};
  for (const [name, value] of new URLSearchParams(text)) {
    const keys = name.replaceAll("]", "").split("[");
    const last = keys.pop()!;
    let holder = result;
    for (const [i, key] of keys.entries()) {
      const isList = /^\d+$/.test(keys[i + 1] ?? last);
      holder = (holder[key] ??= isList ? [] : {}) as Fields;
    }
    holder[last] = value;
  }
  return result;
}

/** Returns an event's data as the API version of an endpoint has it. */
function inShapeOf(version: string, data: Fields): Fields {
  if (version === API_VERSIONS[1]) return data;
  const { object, previous_attributes } = structuredClone(data) as {
    object: Thing;
    previous_attributes?: Fields;
  };
  if (object.object === "invoice") {
    const { parent, ...invoice } = object as Thing & {
      parent: { subscription_details: { subscription: string } };
    };
    const { subscription } = parent.subscription_details;
    return { object: { ...invoice, subscription } };
  }

  const period = takePeriod(object);
  if (previous_attributes) takePeriod(previous_attributes);
  return { object: { ...object, ...period }, previous_attributes };
}

/** Before 2025-03-31.basil, the period was the subscription's, not its items'. */
function takePeriod(holder: Fields) {
  const { data: [item] = [] } = (holder.items ?? {}) as { data?: Fields[] };
  if (!item) return {};
  const { current_period_start, current_period_end } = item;
  delete item.current_period_start;
  delete item.current_period_end;
  return { current_period_start, current_period_end };
}
