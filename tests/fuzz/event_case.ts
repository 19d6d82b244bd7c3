/**
 * Bodies that are close to real events, and bodies that are not.
 *
 * @module
 */
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { paymentIntentEvent } from "../../scripts/events/payment_intent_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import {
  API_VERSIONS,
  type ApiVersion,
} from "../../scripts/events/templates.ts";
import type { Dice } from "../support/random.ts";

/** In every strange text, so that a value that is repeated is found. */
export const VALUE_MARK = "FUZZED";

/** What bodies are made around. */
export interface EventNames {
  readonly id: string;
  readonly subscription: string;
  /** In Unix seconds. */
  readonly created: number;
}

/** The fields that a handler reads, at their places of any version. */
const USED: [string, ...string[]] = [
  "id",
  "type",
  "created",
  "data",
  "data.object",
  "data.object.id",
  "data.object.status",
  "data.object.metadata",
  "data.object.metadata.accountId",
  "data.object.items",
  "data.object.items.data",
  "data.object.items.data.0",
  "data.object.items.data.0.price",
  "data.object.items.data.0.price.id",
  "data.object.items.data.0.current_period_end",
  "data.object.current_period_end",
  "data.object.subscription",
  "data.object.subscription.id",
  "data.object.parent",
  "data.object.parent.subscription_details",
  "data.object.parent.subscription_details.subscription",
  "data.previous_attributes",
  "data.previous_attributes.items",
  "livemode",
  "data.object.livemode",
  "data.object.customer",
  "data.object.items.data.0.quantity",
  "data.object.cancel_at",
  "data.object.cancel_at_period_end",
  "data.object.trial_end",
  "data.object.pause_collection",
  "data.previous_attributes.status",
  "data.previous_attributes.customer",
  "data.previous_attributes.cancel_at",
  "data.previous_attributes.cancel_at_period_end",
  "data.previous_attributes.trial_end",
  "data.previous_attributes.pause_collection",
];

const TYPES: [string, ...string[]] = [
  "customer.subscription.created",
  "customer.subscription.updated",
  "customer.subscription.deleted",
  "invoice.payment_failed",
];

/** Anything that JSON can hold; among it what is good. */
function strangeValue(dice: Dice, { created }: EventNames): unknown {
  return dice.pick<unknown>([
    null,
    true,
    "",
    " \t",
    `${VALUE_MARK}\0`,
    `${VALUE_MARK}\n`,
    `${VALUE_MARK}\u2028`,
    `${VALUE_MARK}\x7f`,
    `${VALUE_MARK}\u0085`,
    `${VALUE_MARK}\ud800`,
    `${VALUE_MARK}\udc00\ud800`,
    `${VALUE_MARK}\u{1f600}\uffff\u200b"'\\`,
    VALUE_MARK.padEnd(255, "x"),
    VALUE_MARK.padEnd(256, "x"),
    "\u{1f600}".repeat(255),
    "\u{1f600}".repeat(256),
    TYPES[0],
    String(created),
    0,
    -1,
    1.5,
    946_684_799,
    946_684_800,
    7_258_118_400,
    7_258_118_401,
    created,
    created + 200,
    created + 400,
    created * 1_000,
    2 ** 53,
    -0,
    1e21,
    5e-324,
    [],
    [[]],
    [{ price: { id: "price_1" } }],
    {},
    { id: VALUE_MARK },
    { behavior: VALUE_MARK },
    { id: 12 },
    { id: null, subscription: VALUE_MARK },
    { subscription_details: { subscription: VALUE_MARK } },
    { subscription: { id: VALUE_MARK } },
    { data: [] },
    { data: [{ price: { id: "price_2" }, current_period_end: created }] },
  ]);
}

/** Texts in the place of a value, which JSON.stringify would never write. */
const TOKENS: [string, ...string[]] = [
  "1e400",
  "-1e400",
  "1e100000",
  "1E+2",
  "9007199254740993",
  "1793700000.0",
  "-0",
  '"\\u0000"',
  '"\\ud800"',
  '"\\u0061"',
  '{"__proto__":{"id":"x"}}',
  '{"id":"x","id":12}',
  '{"id":12,"id":"x"}',
  "[".repeat(2_000) + "]".repeat(2_000),
  "NaN",
  "undefined",
  "01",
  "'x'",
  "",
];

/** An event of some type, changed at up to three places, as bytes. */
export function makeEventBody(
  names: EventNames,
  dice: Dice,
): Uint8Array<ArrayBuffer> {
  const event = makeEvent(names, dice);
  const changes = dice.pick([0, 0, 1, 1, 1, 2, 3]);
  for (let i = 0; i < changes; i++) {
    const path = dice.once(4) ? randomPath(event, dice) : dice.pick(USED);
    change(event, path, dice.once(4) ? undefined : strangeValue(dice, names));
  }
  let text = JSON.stringify(event);
  if (dice.once(6)) text = withToken(text, dice);
  if (dice.once(20)) text = `\ufeff${text}`;
  if (dice.once(30)) text = text.slice(0, dice.roll(text.length));
  if (dice.once(30)) text += dice.pick(["}", " ", "\0", "x", ",{}"]);
  const bytes = new TextEncoder().encode(text);
  if (bytes.length > 0 && dice.once(20)) {
    bytes[dice.roll(bytes.length)] = dice.roll(256);
  }
  return bytes;
}

/** Bytes that are seldom JSON, and JSON that is seldom an event. */
export function makeRandomBody(dice: Dice): Uint8Array<ArrayBuffer> {
  const length = dice.pick([0, 1, 2, 5, 40, 400]);
  if (dice.once(2)) {
    return Uint8Array.from({ length }, () => dice.roll(256));
  }
  const pieces: [string, ...string[]] = [
    ...'{}[]:,"\\ \n0-1e.',
    '"id"',
    '"type"',
    '"data"',
    "null",
    "true",
    '{"id":"x","type":"customer.subscription.deleted"}',
  ] as unknown as [string, ...string[]];
  const text = Array.from({ length }, () => dice.pick(pieces)).join("");
  return new TextEncoder().encode(text);
}

function makeEvent(
  { id, subscription, created }: EventNames,
  dice: Dice,
): object {
  const apiVersion = dice.pick(API_VERSIONS as [ApiVersion, ...ApiVersion[]]);
  const options = {
    id,
    subscription,
    apiVersion,
    created: dice.once(10) ? null : created - dice.roll(100),
  };
  switch (dice.roll(9)) {
    case 0:
      return paymentIntentEvent({ id, apiVersion });
    case 1:
    case 2:
      return invoiceEvent(options);
    case 3:
    case 4:
      return subscriptionEvent("customer.subscription.deleted", options);
    case 5:
    case 6:
      return subscriptionEvent("customer.subscription.updated", options);
    default:
      return subscriptionEvent("customer.subscription.created", options);
  }
}

/** Any place in a tree. */
function randomPath(tree: unknown, dice: Dice): string {
  const names: string[] = [];
  let at = tree;
  while (typeof at === "object" && at !== null && !dice.once(4)) {
    const keys = Object.keys(at);
    const key = keys[dice.roll(keys.length)];
    if (key === undefined) break;
    names.push(key);
    at = (at as Record<string, unknown>)[key];
  }
  return names.join(".") || "data";
}

/** Sets or removes the value at a path, if the path exists. */
function change(tree: object, path: string, value: unknown): void {
  const names = path.split(".");
  const last = names.pop() ?? "";
  let at: unknown = tree;
  for (const name of names) {
    if (typeof at !== "object" || at === null) return;
    at = (at as Record<string, unknown>)[name];
  }
  if (typeof at !== "object" || at === null) return;
  if (value === undefined) Reflect.deleteProperty(at, last);
  else Reflect.set(at, last, value);
}

/** A scalar of the text gives way to a token. */
function withToken(text: string, dice: Dice): string {
  const places = [...text.matchAll(/(?<=":)("[^"\\]*"|-?\d[\d.e+-]*|null)/g)];
  const place = places[dice.roll(places.length)];
  if (place === undefined) return text;
  return text.slice(0, place.index) + dice.pick(TOKENS) +
    text.slice(place.index + place[0].length);
}
