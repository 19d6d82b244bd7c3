/**
 * A stand-in for a sandbox of Stripe's, written from the types of Stripe's package and its
 * documentation: what a rehearsal calls, and the webhooks that follow from it. They are
 * signed by Stripe's package, and arrive late, twice and out of order.
 */
import { setTimeout as sleep } from "node:timers/promises";
import Stripe from "stripe";
import { API_VERSIONS, TEMPLATES } from "../../scripts/events/templates.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { serveHere } from "../support/machine.ts";
import { TEST_API_KEY } from "../support/run_script.ts";

type Fields = Record<string, unknown>;
type Thing = Fields & { id: string };

export interface Endpoint {
  readonly url: string;
  readonly secret: string;
  readonly enabled_events?: readonly string[];
  readonly api_version?: typeof API_VERSIONS[number];
  readonly status?: string;
  /** How far Stripe's clock is ahead of the receiver's. */
  readonly aheadSeconds?: number;
}

/** Some events overtake those before them. Each is sent again. */
const DELAYS_MS = [120, 0, 60, 10];
const AGAIN_AFTER_MS = 90;
const RETRIES_MS = [200, 400, 800];

const SUBSCRIPTION = TEMPLATES["customer.subscription.created"].data.object;
const INVOICE = TEMPLATES["invoice.payment_failed"].data.object;

export function serveSandbox(
  { endpoints, onRequest, refused }: {
    endpoints: readonly Endpoint[];
    /** Called before a request is answered. */
    onRequest?: (request: string) => void;
    /** Paths that are refused. */
    refused?: RegExp;
  },
) {
  const things = new Map<string, Thing>();
  const events: (Thing & { created: number; type: string })[] = [];
  const requests: string[] = [];
  const sending = new Set<Promise<void>>();
  const { webhooks } = new Stripe(TEST_API_KEY);

  function add(object: string, prefix: string, fields: object): Thing {
    const thing = { active: true, id: uniqueId(prefix), ...fields, object };
    things.set(thing.id, thing);
    return thing;
  }

  const all = (object: string) =>
    [...things.values()].filter((thing) => thing.object === object);

  function emit(type: string, object: Thing, previous_attributes?: Fields) {
    const receivers = endpoints
      .filter(({ enabled_events = [type] }) => enabled_events.includes(type));
    const event = {
      id: uniqueId("evt"),
      object: "event",
      created: now(),
      livemode: false,
      pending_webhooks: receivers.length,
      type,
      data: { object: structuredClone(object), previous_attributes },
    };
    events.unshift(event);
    const delayMs = DELAYS_MS[events.length % DELAYS_MS.length]!;

    for (const endpoint of receivers) {
      const sent = sleep(delayMs).then(() => deliver(event, endpoint))
        .finally(() => sending.delete(sent));
      sending.add(sent);
    }
  }

  async function deliver(
    event: { pending_webhooks: number; data: Fields },
    endpoint: Endpoint,
  ) {
    for (const retryMs of RETRIES_MS) {
      if (await post(event, endpoint)) {
        event.pending_webhooks--;
        await sleep(AGAIN_AFTER_MS);
        return void await post(event, endpoint);
      }
      await sleep(retryMs);
    }
  }

  async function post(
    event: { data: Fields },
    { url, secret, api_version = API_VERSIONS[1], aheadSeconds = 0 }: Endpoint,
  ): Promise<boolean> {
    const isOld = api_version === API_VERSIONS[0];
    const data = isOld ? inOldShape(event.data) : event.data;
    const payload = JSON.stringify({ ...event, api_version, data }, null, 2);
    const timestamp = now() + aheadSeconds;
    const signature = await webhooks
      .generateTestHeaderStringAsync({ payload, secret, timestamp });
    const headers = { "stripe-signature": signature };
    const init = { method: "POST", headers, body: payload };
    const response = await fetch(url, init).catch(() => undefined);
    await response?.body?.cancel();
    return response?.ok ?? false;
  }

  function change(thing: Thing, changes: Fields, type = "updated"): Thing {
    const before = structuredClone(thing);
    const changed = Object.keys(changes).filter((name) =>
      JSON.stringify(changes[name]) !== JSON.stringify(thing[name])
    );
    const previous = Object.fromEntries(
      changed.map((name) => [name, before[name]]),
    );
    Object.assign(thing, changes);
    emit(
      `customer.subscription.${type}`,
      thing,
      type === "updated" ? previous : undefined,
    );
    return thing;
  }

  /** Charges the card of a subscription, and returns its status. */
  function charge(subscription: Thing, billing_reason: string): string {
    const { id, customer, metadata, default_payment_method } = subscription;
    const subscription_details = { subscription: id, metadata };
    const invoice = add("invoice", "in", {
      ...INVOICE,
      id: uniqueId("in"),
      customer,
      billing_reason,
      parent: { type: "subscription_details", subscription_details },
    });
    subscription.latest_invoice = invoice.id;
    const { card } = things.get(`${default_payment_method}`)!;
    if (card === "pm_card_visa") return "active";
    emit("invoice.payment_failed", invoice);
    return "past_due";
  }

  function itemsOf([item]: readonly Fields[], before = {}) {
    const [template] = SUBSCRIPTION.items.data;
    const { price: id, quantity } = item!;
    const { product } = things.get(`${id}`)!;
    const price = { ...template!.price, id, product };
    const changed = { price, quantity: Number(quantity) };
    const current_period_end = now() + 30 * 86_400;
    const data = [{ ...template, current_period_end, ...before, ...changed }];
    return { ...SUBSCRIPTION.items, data };
  }

  function create({ items, ...fields }: Fields): Thing {
    const subscription = add("subscription", "sub", {
      ...SUBSCRIPTION,
      id: uniqueId("sub"),
      ...fields,
      cancel_at: null,
      pause_collection: null,
      items: itemsOf(items as Fields[]),
      status: "incomplete",
    });
    emit("customer.subscription.created", subscription);
    const status = charge(subscription, "subscription_create");
    return change(subscription, { status });
  }

  function update(subscription: Thing, { items, ...fields }: Fields): Thing {
    const [item] = (subscription.items as { data: [Fields] }).data;
    const {
      billing_cycle_anchor: anchor,
      cancel_at_period_end: ends,
      default_payment_method = subscription.default_payment_method,
      pause_collection = subscription.pause_collection,
    } = fields;
    Object.assign(subscription, { default_payment_method });
    const changes: Fields = { pause_collection: pause_collection || null };
    if (ends) {
      changes.cancel_at_period_end = ends === "true";
      changes.cancel_at = ends === "true" ? item.current_period_end : null;
    }
    if (items) changes.items = itemsOf(items as Fields[], item);
    if (anchor) changes.status = charge(subscription, "subscription_update");
    return change(subscription, changes);
  }

  const cancel = (subscription: Thing) =>
    change(subscription, { status: "canceled" }, "deleted");

  function deleteCustomer(id: string) {
    all("subscription")
      .filter(({ customer, status }) =>
        customer === id && status !== "canceled"
      )
      .forEach(cancel);
    things.delete(id);
    return { id, deleted: true };
  }

  function list(object: string, fields: Fields): readonly unknown[] {
    if (object === "event") {
      const { types, created } = fields as { types: string[]; created: Fields };
      return events.filter((event) =>
        types.includes(event.type) && event.created >= Number(created.gte)
      );
    }
    return all(object).filter((thing) =>
      Object.entries(fields).every(([name, value]) =>
        name === "limit" || `${thing[name]}` === value
      )
    );
  }

  function carryOut(method: string, path: string, fields: Fields): unknown {
    const [, , what = "", id = "", action] = path.split("/");
    const object = what.slice(0, -1);
    const thing = things.get(id)!;
    const isNew = id === "" || action === "attach";
    if (!isNew && !thing) {
      throw new Error(`No such ${object}: ${id}`, {
        cause: "resource_missing",
      });
    }

    if (method === "GET") {
      return id ? thing : { data: list(object, fields), has_more: false };
    }
    switch (`${method} ${object} ${action ?? (id && "one")}`) {
      case "POST subscription ":
        return create(fields);
      case "POST subscription one":
        return update(thing, fields);
      case "POST subscription pause":
        return change(thing, { status: "paused" }, "paused");
      case "POST subscription resume":
        return change(thing, { status: "active" }, "resumed");
      case "POST invoice pay": {
        const subscription = all("subscription")
          .find(({ latest_invoice }) => latest_invoice === id)!;
        change(subscription, { status: "active" });
        return thing;
      }
      case "POST payment_method attach":
        return add(object, "pm", { card: id });
      case "DELETE subscription one":
        return cancel(thing);
      case "DELETE customer one":
        return deleteCustomer(id);
      case "POST product one":
      case "POST price one":
        return Object.assign(thing, { active: fields.active === "true" });
      default:
        return add(object, object, fields);
    }
  }

  async function answer(request: Request): Promise<Response> {
    const { pathname, search } = new URL(request.url);
    const fields = parseForm(await request.text() || search);
    try {
      if (refused?.test(pathname)) throw new Error(`${pathname} is refused`);
      return Response.json(carryOut(request.method, pathname, fields));
    } catch (thrown) {
      const { message, cause: code } = thrown as Error;
      const error = { type: "invalid_request_error", code, message };
      return Response.json({ error }, { status: code ? 404 : 400 });
    }
  }

  for (const { secret: _secret, ...endpoint } of endpoints) {
    const standard = { status: "enabled", enabled_events: ["*"] };
    const shown = { livemode: false, ...standard, ...endpoint };
    add("webhook_endpoint", "we", shown);
  }
  const server = serveHere(async (request) => {
    const answered = await answer(request);
    const line = `${request.method} ${new URL(request.url).pathname}`;
    requests.push(line);
    onRequest?.(line);
    return answered;
  });
  return {
    url: server.url,
    requests,
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

interface Shape extends Fields {
  items?: { data: [Fields] };
  parent?: typeof INVOICE.parent;
}

/** Returns an event's data as API versions before 2025-03-31.basil have it. */
function inOldShape(data: Fields): Fields {
  const copy = structuredClone(data);
  for (const holder of Object.values(copy) as (Shape | undefined)[]) {
    const { items: { data: [item] } = { data: [] }, parent } = holder ?? {};
    if (parent) {
      holder!.subscription = parent.subscription_details.subscription;
      delete holder!.parent;
    } else if (item) {
      holder!.current_period_end = item.current_period_end;
      delete item.current_period_end;
    }
  }
  return copy;
}
