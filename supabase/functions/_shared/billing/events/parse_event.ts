import { DeliveryError } from "../errors.ts";
import type { Payment, WireEvent } from "./event.ts";
import type { EventSettings } from "./event_settings.ts";
import { textOf } from "./fields.ts";
import { type Format, kindOf, namedAccount, type Parts } from "./format.ts";

export type ParsedEvent =
  | Readonly<{
    isIgnored: false;
    event: WireEvent;
    /** Whether a checkout names something that cannot be an account ID. */
    isAccountUnusable?: boolean;
  }>
  | Readonly<{
    isIgnored: true;
    reason: IgnoredReason;
    type: string;
    id: unknown;
  }>;

/** The settings for reading a provider's events. */
export type ReadingSettings = Readonly<{
  format: Format;
  /** Events of the other mode are ignored. */
  mode: "any" | "live" | "test";
  /** Whether events of connected accounts are applied. */
  connect: boolean;
}>;

type IgnoredReason =
  | "not_handled"
  | "other_mode"
  | "connect"
  | "thin"
  | "no_subscription";

const UTF_8 = new TextDecoder("utf-8", { fatal: true });

/**
 * Returns the text of a body, without a byte order mark, which is signed but not JSON.
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

/** Returns the text of a body; undefined if Postgres cannot store it. */
export function storableText(body: Uint8Array): string | undefined {
  try {
    const text = decodeBody(body);
    return text.includes("\0") ? undefined : text;
  } catch {
    return undefined;
  }
}

export function parseAny(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? "");
  } catch {
    return undefined;
  }
}

/** Returns the id of an event whose body has none; undefined if none can be derived. */
export async function readEventId(
  body: Uint8Array,
  { format, deliveryId, handlerTypes }: {
    format: Format;
    deliveryId: string | undefined;
    handlerTypes: EventSettings["handlerTypes"];
  },
): Promise<string | undefined> {
  if (format.idOf === undefined) return undefined;

  const event = parseAny(storableText(body));
  const isWhole = handlerTypes.types.has(textOf(format.partsOf(event).type));
  try {
    return await format.idOf(event, { deliveryId, isWhole });
  } catch {
    return undefined; // The event is nested too deeply to be hashed.
  }
}

/**
 * Parses and validates the text of an authentic event. One without effect may hold
 * anything: errors would make the provider disable the endpoint.
 *
 * @param options.nowSeconds An event dated later than this plus the tolerance is refused:
 * until then, its subscription would accept no other.
 * @throws {DeliveryError} `body_empty`, `body_not_json` or `event_invalid`, or
 * `deployment_fault` if `HANDLE_EVENT_TYPES` is malformed, and may mean this type.
 */
export function parseEvent(
  text: string,
  {
    format,
    id,
    nowSeconds,
    toleranceSeconds,
    notify = new Set(),
    oncePerInvoice,
    planItem = "first",
    handlerTypes = { types: new Set() },
    accountFromCheckout,
    mode = "any",
    connect = true,
  }: Partial<EventSettings & ReadingSettings> & {
    format: Format;
    id?: string | undefined;
    nowSeconds: number;
    toleranceSeconds: number;
  },
): ParsedEvent {
  const json = parseJson(text);
  const parts = format.partsOf(json);
  const type = typeOf(parts, format);
  const ignored = (reason: IgnoredReason): ParsedEvent => {
    return { isIgnored: true, reason, type, id: id ?? parts.id };
  };

  const { livemode, isConnected, isThin } = parts;
  const isOtherMode = mode !== "any" && typeof livemode === "boolean" &&
    livemode !== (mode === "live");
  if (isOtherMode) return ignored("other_mode");
  if (!connect && isConnected) return ignored("connect");

  const kind = kindOf(format, type);
  const takesEffect = kind === "notice"
    ? notify.has(format.notices![type]!)
    : kind !== undefined;
  const isCheckout = accountFromCheckout && type === format.checkout?.type;
  const hasHandler = handlerTypes.types.has(type);
  if (!takesEffect && !isCheckout) {
    const { fault } = handlerTypes;
    if (fault !== undefined) throw new DeliveryError("deployment_fault", fault);
    if (!hasHandler) return ignored(isThin ? "thin" : "not_handled");
  }

  const read = format.read(json, { id, planItem, takesEffect, parts });
  const latestSeconds = nowSeconds + toleranceSeconds;
  if (Date.parse(read.occurred_at ?? "") / 1000 > latestSeconds) {
    throw new DeliveryError(
      "event_invalid",
      `${format.names.occurred_at}: must not be more than ${toleranceSeconds} s ahead of the receiver's clock`,
    );
  }
  // A failed payment for something other than a subscription.
  if (read.subscription_id === null && !hasHandler) {
    return ignored("no_subscription");
  }

  const { payment, ...withoutPayment } = read;
  const isNotified = payment && notify.has(payment.kind) &&
    !isOver(payment, nowSeconds);
  const limit = oncePerInvoice && { once_per_invoice: true as const };
  const event = {
    ...withoutPayment,
    ...(isNotified && { payment: { ...payment, ...limit } }),
    ...(hasHandler && { payload: text }),
  };

  if (isCheckout) {
    const { account_id, isUnusable } = format.checkout!.accountOf(json);
    return {
      isIgnored: false,
      event: { ...event, kind: "checkout", account_id },
      isAccountUnusable: isUnusable,
    };
  }
  // Undefined, unlike null: events of its kind set no account.
  const named_account = event.account_id === undefined
    ? namedAccount(json, parts, format)
    : undefined;
  return {
    isIgnored: false,
    event: { ...event, ...(named_account !== undefined && { named_account }) },
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

function typeOf({ type }: Parts, { names }: Format): string {
  if (typeof type === "string" && type.trim() !== "") return type;
  const fault = type === undefined
    ? " is missing"
    : ": must be a string that is not blank";
  throw new DeliveryError("event_invalid", names.type + fault);
}

/** Returns whether a notified trial has ended, or its end is unknown. */
function isOver({ trial_end }: Payment, nowSeconds: number): boolean {
  if (trial_end === undefined) return false;
  return trial_end === null || Date.parse(trial_end) <= nowSeconds * 1000;
}
