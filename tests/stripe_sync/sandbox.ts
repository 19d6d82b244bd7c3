/**
 * A stand-in for a sandbox of Stripe's, written from the types of Stripe's package and its
 * documentation: what a rehearsal calls, and the webhooks that follow from it. They are
 * signed by Stripe's package, and arrive late, twice and out of order.
 */
import { setTimeout as sleep } from "node:timers/promises";
import Stripe from "stripe";
import {
  API_VERSIONS,
  TEMPLATES,
  uniqueId,
} from "../../scripts/events/templates.ts";
import { serveHere } from "../support/machine.ts";
import { TEST_API_KEY } from "../support/run_script.ts";

type Fields = Record<string, unknown>;
type Thing = Fields & { id: string };

type Item = Fields & { price: Fields };
/** As Stripe's package sends it, with names such as `items[0][quantity]`. */
type Form = Readonly<Record<string, string>>;

export interface Endpoint {
  readonly url: string;
  readonly secret: string;
  readonly enabled_events?: readonly string[];
  readonly api_version?: typeof API_VERSIONS[number];
  readonly status?: string;
}

/** Some events overtake those before them. Each is sent again. */
const DELAYS_MS = [60, 0, 120, 10];
const AGAIN_AFTER_MS = 90;

const SUBSCRIPTION = TEMPLATES["customer.subscription.created"].data.object;
const [ITEM] = SUBSCRIPTION.items.data as unknown as [Item];
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
  const events: (Thing & { created: number; type: string })[] = [{
    id: uniqueId("evt"),
    created: now(),
    livemode: false,
    type: "customer.subscription.updated",
    data: { object: { customer: "cus_of_another_app" } },
  }];
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
      // Each a second after the one before it.
      created: now() - 60 + events.length,
      livemode: false,
      type,
      data: { object: structuredClone(object), previous_attributes },
    };
    events.unshift(event);
    const delayMs = DELAYS_MS[events.length % DELAYS_MS.length]!;

    for (const endpoint of receivers) {
      const sent = sleep(delayMs).then(() => post(event, endpoint))
        .then(() => sleep(AGAIN_AFTER_MS)).then(() => post(event, endpoint))
        .finally(() => sending.delete(sent));
      sending.add(sent);
    }
  }

  async function post(
    event: { data: Fields },
    { url, secret, api_version = API_VERSIONS[1] }: Endpoint,
  ) {
    const isOld = api_version === API_VERSIONS[0];
    const data = isOld ? inOldShape(event.data) : event.data;
    const payload = JSON.stringify({ ...event, api_version, data }, null, 2);
    const signature = await webhooks
      .generateTestHeaderStringAsync({ payload, secret });
    const headers = { "stripe-signature": signature };
    const response = await fetch(url, {
      method: "POST",
      headers,
      body: payload,
    });
    await response.body?.cancel();
  }

  function change(thing: Thing, changes: Fields, type = "updated"): Thing {
    const previous = Object.entries(structuredClone(thing)).filter(
      ([name, value]) =>
        name in changes &&
        JSON.stringify(changes[name]) !== JSON.stringify(value),
    );
    Object.assign(thing, changes);
    const attributes = type === "updated" && Object.fromEntries(previous);
    emit(`customer.subscription.${type}`, thing, attributes || undefined);
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

  function itemsOf(form: Form, before = ITEM) {
    const product = form["items[0][price_data][product]"];
    const price = product
      ? { ...ITEM.price, id: uniqueId("price"), product }
      : before.price;
    const current_period_end = now() + 30 * 86_400;
    const quantity = Number(form["items[0][quantity]"]);
    const item = { ...before, current_period_end, price, quantity };
    return { ...SUBSCRIPTION.items, data: [item] };
  }

  function create(form: Form): Thing {
    const { customer, default_payment_method } = form;
    const subscription = add("subscription", "sub", {
      ...SUBSCRIPTION,
      id: uniqueId("sub"),
      customer,
      default_payment_method,
      metadata: { accountId: form["metadata[accountId]"] },
      cancel_at: null,
      pause_collection: null,
      items: itemsOf(form),
      status: "incomplete",
    });
    emit("customer.subscription.created", subscription);
    const status = charge(subscription, "subscription_create");
    return change(subscription, { status });
  }

  function update(subscription: Thing, form: Form): Thing {
    const [item] = (subscription.items as { data: [Item] }).data;
    const { cancel_at_period_end: ends, pause_collection } = form;
    subscription.default_payment_method = form.default_payment_method ??
      subscription.default_payment_method;

    const changes: Fields = {};
    if (ends) {
      changes.cancel_at_period_end = ends === "true";
      changes.cancel_at = ends === "true" ? item.current_period_end : null;
    }
    const behavior = form["pause_collection[behavior]"];
    if (behavior) changes.pause_collection = { behavior };
    if (pause_collection === "") changes.pause_collection = null;
    if ("items[0][id]" in form) changes.items = itemsOf(form, item);
    if ("billing_cycle_anchor[type]" in form) {
      changes.status = charge(subscription, "subscription_update");
    }
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

  function list(object: string, form: Form): readonly unknown[] {
    if (object === "event") {
      return events.filter(({ type, created }) =>
        Object.values(form).includes(type) &&
        created >= Number(form["created[gte]"])
      );
    }
    return all(object).filter((thing) =>
      Object.entries(form).every(([name, value]) =>
        name === "limit" || `${thing[name]}` === value
      )
    );
  }

  function carryOut(method: string, path: string, form: Form): unknown {
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
      return id ? thing : { data: list(object, form), has_more: false };
    }
    switch (`${method} ${object} ${action ?? (id && "one")}`) {
      case "POST subscription ":
        return create(form);
      case "POST subscription one":
        return update(thing, form);
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
        return Object.assign(thing, { active: form.active === "true" });
      default:
        return add(object, object, form);
    }
  }

  async function answer(request: Request): Promise<Response> {
    const { pathname, search } = new URL(request.url);
    const text = await request.text() || search;
    const form = Object.fromEntries(new URLSearchParams(text));
    try {
      if (refused?.test(pathname)) throw new Error(`${pathname} is refused`);
      return Response.json(carryOut(request.method, pathname, form));
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
        ...all("product").filter(({ active }) => active),
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
