import type { EventMode, EventSettings } from "../settings/deployment.ts";
import { DeliveryError } from "../errors.ts";
import { textOf } from "./fields.ts";
import {
  type Format,
  type HandledEvent,
  kindOf,
  lacksAccountId,
  namedAccount,
} from "./format.ts";
import { settingsPrefix } from "../settings/providers.ts";

type IgnoredReason =
  | "not_handled"
  | "other_mode"
  | "connect"
  | "thin"
  | "no_subscription";

export type ParsedEvent =
  | {
    readonly handled: true;
    readonly event: EventToApply;
    /** What a checkout names as its account could be none. */
    readonly isAccountUnusable?: boolean;
  }
  | {
    readonly handled: false;
    readonly reason: IgnoredReason;
    readonly type: string;
    readonly id: unknown;
  };

/** An event, and its text as signed if a handler of the app is to read it. */
export type EventToApply = HandledEvent & { readonly payload?: string };

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
 * @param options.id Of an event whose body has none: see {@linkcode Format.idOf}.
 * @throws {DeliveryError} `body_empty`, `body_not_json` or `event_invalid`. The
 * message names the path of each bad field, never its value. `deployment_fault` if the
 * setting that lists further types is wrong, and it may be one of them.
 */
export function parseEvent(
  text: string,
  {
    format,
    id,
    nowSeconds,
    toleranceSeconds,
    notify = new Set(),
    planItem = "first",
    handledTypes = { types: new Set() },
    accountFromCheckout = false,
    mode = "any",
    connect = true,
  }: Partial<EventSettings> & {
    format: Format;
    id?: string | undefined;
    nowSeconds: number;
    toleranceSeconds: number;
    mode?: EventMode;
    connect?: boolean;
  },
): ParsedEvent {
  const json = parseJson(text);
  const parts = format.partsOf(json);
  const { type, livemode } = parts;
  if (typeof type !== "string" || type.trim() === "") {
    const fault = type === undefined
      ? " is missing"
      : ": must be a string that is not blank";
    throw new DeliveryError("event_invalid", format.names.type + fault);
  }
  const ignored = (reason: IgnoredReason): ParsedEvent => {
    return { handled: false, reason, type, id: id ?? parts.id };
  };
  const isOther = typeof livemode === "boolean" &&
    livemode !== (mode === "live");
  if (mode !== "any" && isOther) return ignored("other_mode");
  if (!connect && parts.isConnected) return ignored("connect");
  const isCheckout = accountFromCheckout && type === format.checkout?.type;
  const hasHandler = handledTypes.types.has(type);
  const kind = kindOf(format, type);
  const isHandled = kind === "notice"
    ? notify.has(format.notices![type]!)
    : kind !== undefined;
  if (!isHandled && !isCheckout) {
    if (handledTypes.fault !== undefined) {
      throw new DeliveryError("deployment_fault", handledTypes.fault);
    }
    if (!hasHandler) return ignored(parts.isThin ? "thin" : "not_handled");
  }

  const reading = { id, planItem, isHandled, parts };
  const { payment, ...rest } = format.read(json, reading);
  const tells = payment !== undefined && notify.has(payment.kind) &&
    !(Date.parse(payment.trial_end ?? "") <= nowSeconds * 1000) &&
    payment.trial_end !== null;
  const event = tells ? { ...rest, payment } : rest;
  const occurredAt = Date.parse(event.occurred_at ?? "") / 1000;
  if (occurredAt > nowSeconds + toleranceSeconds) {
    throw new DeliveryError(
      "event_invalid",
      `${format.names.occurred_at}: must not be more than ${toleranceSeconds} s ahead of the receiver's clock`,
    );
  }
  const payload = hasHandler ? { payload: text } : {};
  // A failed payment of no subscription.
  if (event.subscription_id === null && !hasHandler) {
    return ignored("no_subscription");
  }
  if (!isCheckout) {
    const named_account = event.account_id === undefined
      ? namedAccount(json, parts, format)
      : undefined;
    const names = named_account === undefined ? {} : { named_account };
    return { handled: true, event: { ...event, ...names, ...payload } };
  }
  const { account_id, isUnusable } = format.checkout!.accountOf(json);
  return {
    handled: true,
    event: { ...event, kind: "checkout", account_id, ...payload },
    isAccountUnusable: isUnusable,
  };
}

/** Says why an event has no effect, and by which settings; repeats nothing of the event. */
export function whyIgnored(
  { reason, type }: ParsedEvent & { readonly handled: false },
  { provider, format }: { provider: string; format: Format },
): string {
  const prefix = settingsPrefix(provider);
  switch (reason) {
    case "other_mode":
      return `It is of the other mode: look at ${prefix}MODE`;
    case "connect":
      return `It is of a connected account: look at ${prefix}CONNECT`;
    case "no_subscription":
      return "It names no subscription: look at HANDLE_EVENT_TYPES";
    default: {
      const more = kindOf(format, type) === "notice"
        ? "NOTIFY, "
        : type === format.checkout?.type
        ? "ACCOUNT_FROM_CHECKOUT, "
        : "";
      return `Its type is not handled: look at ${more}HANDLE_EVENT_TYPES, ${prefix}FORMAT`;
    }
  }
}

/** Returns the id of an event whose body has none; else, or if it cannot be read, undefined. */
export async function readEventId(
  body: Uint8Array,
  { format, deliveryId, handledTypes }: {
    readonly format: Format;
    readonly deliveryId: string | undefined;
    readonly handledTypes: EventSettings["handledTypes"];
  },
): Promise<string | undefined> {
  if (format.idOf === undefined) return undefined;
  let event: unknown;
  try {
    event = JSON.parse(decodeBody(body));
  } catch {
    // Parsing says what is wrong with it.
  }
  const isWhole = handledTypes.types.has(textOf(format.partsOf(event).type));
  try {
    return await format.idOf(event, { deliveryId, isWhole });
  } catch {
    return undefined; // It is nested too deeply to be hashed.
  }
}

function parseJson(text: string): unknown {
  if (text === "") throw new DeliveryError("body_empty", "The body is empty");
  try {
    return JSON.parse(text);
  } catch {
    throw new DeliveryError("body_not_json", "The body is not valid JSON");
  }
}

/**
 * Returns whether the database refused an event only because its subscription has no
 * account: a creation without an account id (BW005), or an event without one for a
 * subscription that is not recorded (BW001). A provider account that also sells other
 * products sends their events too. Providers put a subscription's metadata into each of
 * its events, so an event that merely arrives before its creation has an account id, or
 * its customer has an account, and the code is `creation_pending`.
 */
export function isUnmapped(
  error: DeliveryError,
  text: string,
  format: Format,
): boolean {
  const { sqlState } = error;
  return (sqlState === "BW001" || sqlState === "BW005") &&
    lacksAccountId(JSON.parse(text), format);
}
