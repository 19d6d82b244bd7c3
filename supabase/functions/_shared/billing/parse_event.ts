import type { z } from "zod/mini";
import type { Config, EventMode } from "./config.ts";
import { DeliveryError } from "./errors.ts";
import { describeFault, member, MISSING } from "./fields.ts";
import {
  CHECKOUT,
  checkoutAccount,
  furtherEvent,
  type HandledEvent,
  handledEvents,
  isConnected,
  isHandledType,
  isThin,
  lacksAccountId,
} from "./formats/stripe.ts";

const MAX_REPORTED_FAULTS = 5;

/** An event of a handled type, or the reason why the event has no effect. */
export type ParsedEvent =
  | {
    readonly handled: true;
    readonly event: EventToApply;
    /** What a checkout names as its account could be none. */
    readonly isAccountUnusable?: boolean;
  }
  | {
    readonly handled: false;
    readonly reason: "not_handled" | "other_mode" | "connect" | "thin";
    readonly type: string;
    readonly id: unknown;
  };

/** An event, and its text as signed if a handler of the app is to read it. */
export type EventToApply = HandledEvent & { readonly payload?: string };

/** The settings by which events are read. */
export type ParseSettings = Pick<
  Config,
  | "toleranceSeconds"
  | "notify"
  | "planItem"
  | "handledTypes"
  | "accountFromCheckout"
>;

/** Shared by all bodies: without `stream`, it keeps no state between them. */
const UTF_8 = new TextDecoder("utf-8", { fatal: true });

/**
 * Returns the text of a body, decoded strictly. It drops a byte order mark at
 * the start, which is part of the signed bytes but not JSON.
 *
 * @throws {DeliveryError} `body_not_text` if the bytes are not UTF-8.
 */
export function decodeBody(body: Uint8Array): string {
  try {
    return UTF_8.decode(body);
  } catch {
    throw new DeliveryError("body_not_text", "The body is not valid UTF-8");
  }
}

/**
 * Parses and validates the text of an authentic event.
 *
 * An event of another type is accepted with any data, and so is a failed invoice
 * without a subscription: a provider that gets errors for them disables the
 * endpoint in the long run.
 *
 * @param options.nowSeconds The receiver's clock, in Unix seconds. An event that
 * is dated ahead of it is refused: it would freeze its subscription until then.
 * @param options.toleranceSeconds How far ahead an event may be dated.
 * @param options.mode Which events the endpoint handles; all by default.
 * @param options.connect Whether it handles those of connected accounts; by default.
 * @throws {DeliveryError} `body_empty`, `body_not_json` or `event_invalid`. The
 * message names the path of each bad field, never its value. `deployment_fault` if the
 * setting that lists further types is wrong, and it may be one of them.
 */
export function parseEvent(
  text: string,
  {
    nowSeconds,
    toleranceSeconds,
    notify = new Set(),
    planItem = "first",
    handledTypes = { types: new Set() },
    accountFromCheckout = false,
    mode = "any",
    connect = true,
  }: Partial<ParseSettings> & {
    nowSeconds: number;
    toleranceSeconds: number;
    mode?: EventMode;
    connect?: boolean;
  },
): ParsedEvent {
  const json = parseJson(text);
  const type = member(json, "type");
  const id = member(json, "id");
  if (typeof type !== "string" || type.trim() === "") {
    throw new DeliveryError(
      "event_invalid",
      type === undefined
        ? "type is missing"
        : "type: must be a string that is not blank",
    );
  }
  // An event without a boolean `livemode` belongs to either mode.
  const livemode = member(json, "livemode");
  const isOther = typeof livemode === "boolean" &&
    livemode !== (mode === "live");
  if (mode !== "any" && isOther) {
    return { handled: false, reason: "other_mode", type, id };
  }
  if (!connect && isConnected(json)) {
    return { handled: false, reason: "connect", type, id };
  }
  const isCheckout = accountFromCheckout && type === CHECKOUT;
  const hasHandler = handledTypes.types.has(type);
  const isOwn = isHandledType(type, notify);
  if (!isOwn && !isCheckout) {
    if (handledTypes.fault !== undefined) {
      throw new DeliveryError("deployment_fault", handledTypes.fault);
    }
    if (!hasHandler) {
      const reason = isThin(json) ? "thin" : "not_handled";
      return { handled: false, reason, type, id };
    }
  }

  const schema = isOwn ? handledEvents[planItem] : furtherEvent;
  const result = schema.safeParse(json, { error: describeFault });
  if (!result.success) {
    throw new DeliveryError("event_invalid", describe(result.error));
  }
  const { payment, ...rest } = result.data;
  const tells = payment !== undefined && notify.has(payment.kind) &&
    !(Date.parse(payment.trial_end ?? "") <= nowSeconds * 1000) &&
    payment.trial_end !== null;
  const event = tells ? { ...rest, payment } : rest;
  const occurredAt = Date.parse(event.occurred_at ?? "") / 1000;
  if (occurredAt > nowSeconds + toleranceSeconds) {
    throw new DeliveryError(
      "event_invalid",
      `created: must not be more than ${toleranceSeconds} s ahead of the receiver's clock`,
    );
  }
  const payload = hasHandler ? { payload: text } : {};
  // A failed payment of no subscription.
  if (event.subscription_id === null && !hasHandler) {
    return { handled: false, reason: "not_handled", type, id };
  }
  if (!isCheckout) return { handled: true, event: { ...event, ...payload } };
  const { account_id, isUnusable } = checkoutAccount(json);
  return {
    handled: true,
    event: { ...event, kind: "checkout", account_id, ...payload },
    isAccountUnusable: isUnusable,
  };
}

function parseJson(text: string): unknown {
  if (text === "") throw new DeliveryError("body_empty", "The body is empty");
  try {
    return JSON.parse(text);
  } catch {
    throw new DeliveryError("body_not_json", "The body is not valid JSON");
  }
}

function describe(error: z.core.$ZodError): string {
  return error.issues
    .slice(0, MAX_REPORTED_FAULTS)
    .map(({ path, message }) => {
      const parts = path.map((part) =>
        typeof part === "number" ? `[${part}]` : `.${String(part)}`
      );
      const separator = message === MISSING ? "" : ":";
      return `${parts.join("").slice(1)}${separator} ${message}`;
    })
    .join("; ");
}

/**
 * Returns whether an event failed only because its subscription has no account:
 * a creation without an account id, or an event without one for a subscription
 * that is not recorded. A provider account that also sells other products sends
 * their events too. Stripe puts a subscription's metadata into each of its
 * events, so an event that merely arrives before its creation has an account id,
 * or its customer has an account, and the code is `creation_pending`.
 *
 * @param text The event as text.
 */
export function isUnmapped(error: DeliveryError, text: string): boolean {
  switch (error.code) {
    case "subscription_unknown":
      return lacksAccountId(JSON.parse(text));
    case "event_invalid": {
      const event = JSON.parse(text);
      return member(event, "type") === "customer.subscription.created" &&
        lacksAccountId(event);
    }
    default:
      return false;
  }
}
