/**
 * The rules for a body, written a second time and in another way: those of the
 * specification and of the catalogue, without zod and without the receiver's
 * code.
 *
 * @module
 */

/** What is to come of a body that is authentic. */
export type Verdict =
  /** No event: 400. */
  | "unreadable"
  /** A bad field that is used: 422. */
  | "invalid"
  /** A type that is not handled, or an invoice of no subscription: 200. */
  | "ignored"
  /** For the database to decide. */
  | "handled";

type Json = Record<string, unknown>;

/** The default of SIGNATURE_TOLERANCE_SECONDS. */
const TOLERANCE_SECONDS = 300;

/**
 * @param now In Unix seconds.
 */
export function judge(body: Uint8Array, now: number): Verdict {
  let json: unknown;
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(body);
    json = JSON.parse(text);
  } catch {
    return "unreadable";
  }
  if (!isRecord(json)) return "invalid";
  const { type } = json;
  if (typeof type !== "string" || type.trim() === "") return "invalid";
  const data = isRecord(json.data) ? json.data : {};
  const object = isRecord(data.object) ? data.object : undefined;

  let good = isId(json.id) && isMoment(json.created, now) &&
    object !== undefined;
  switch (type) {
    case "customer.subscription.created":
      good &&= isSubscription(object) && mayNameAccount(object.metadata);
      break;
    case "customer.subscription.updated":
      good &&= isSubscription(object) && isId(object.status);
      break;
    case "customer.subscription.deleted":
      good &&= isId(object?.id);
      break;
    case "invoice.payment_failed": {
      const subscription = subscriptionOf(object ?? {});
      if (good && subscription === "none") return "ignored";
      good &&= isId(subscription);
      break;
    }
    default:
      return "ignored";
  }
  return good ? "handled" : "invalid";
}

/** Returns the ID that an event is filed under, if it has a usable one. */
export function usableId(body: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(body);
    const json = JSON.parse(text);
    return isRecord(json) && isId(json.id) ? json.id : undefined;
  } catch {
    return undefined;
  }
}

/** If it does not, the database asks for the account of the customer. */
function mayNameAccount(metadata: unknown): boolean {
  const account = isRecord(metadata) ? metadata.accountId : metadata;
  return account === undefined || account === null ||
    (isRecord(metadata) && isId(account));
}

function isSubscription(object: Json | undefined): object is Json {
  if (!isId(object?.id) || !isRecord(object?.items)) return false;
  const [item] = Array.isArray(object.items.data) ? object.items.data : [];
  if (!isRecord(item) || !isRecord(item.price) || !isId(item.price.id)) {
    return false;
  }
  return isSeconds(object.current_period_end ?? item.current_period_end);
}

function subscriptionOf(invoice: Json): unknown {
  const { parent } = invoice;
  const details = isObject(parent) ? parent.subscription_details : undefined;
  const found = invoice.subscription ??
    (isObject(details) ? details.subscription : undefined) ?? "none";
  return isObject(found) ? found.id : found;
}

function isId(value: unknown): value is string {
  if (typeof value !== "string" || value.trim() === "") return false;
  // Characters as Postgres counts them, not UTF-16 units.
  const characters = [...value];
  return characters.length <= 255 && characters.every((character) => {
    const code = character.codePointAt(0) ?? 0;
    const isControl = code < 0x20 || (code >= 0x7f && code < 0xa0);
    const isSurrogate = code >= 0xd800 && code <= 0xdfff;
    return !isControl && !isSurrogate && code !== 0x2028 && code !== 0x2029;
  });
}

function isMoment(value: unknown, now: number): boolean {
  return value === undefined ||
    (isSeconds(value) && (value as number) <= now + TOLERANCE_SECONDS);
}

/** From 2000 to 2200. */
function isSeconds(value: unknown): boolean {
  return typeof value === "number" && value % 1 === 0 &&
    value >= Date.UTC(2000) / 1_000 && value <= Date.UTC(2200) / 1_000;
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null;
}

function isRecord(value: unknown): value is Json {
  return isObject(value) && !Array.isArray(value);
}
