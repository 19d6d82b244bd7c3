import { DeliveryError } from "../errors.ts";
import type { EventToApply, HandledEvent, Payment } from "./event.ts";
import type { EventMode, EventSettings } from "./event_settings.ts";
import { textOf } from "./fields.ts";
import { type Format, kindOf, namedAccount, type Parts } from "./format.ts";

export type ParsedEvent =
  | {
    readonly handled: true;
    readonly event: EventToApply;
    /** Whether a checkout names something that cannot be an account ID. */
    readonly isAccountUnusable?: boolean;
  }
  | {
    readonly handled: false;
    readonly reason: IgnoredReason;
    readonly type: string;
    readonly id: unknown;
  };

type IgnoredReason =
  | "not_handled"
  | "other_mode"
  | "connect"
  | "thin"
  | "no_subscription";

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

/**
 * Parses and validates the text of an authentic event.
 *
 * An event of another type is accepted with any data, and so is a failed invoice
 * without a subscription: a provider that gets errors for them disables the
 * endpoint in the long run.
 *
 * @param options.nowSeconds The receiver's clock, in Unix seconds. An event that
 * is dated ahead of it is refused: it would freeze its subscription until then.
 * @param options.id The id of an event whose body has none: see {@linkcode Format.idOf}.
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
  const type = typeOf(parts, format);
  const ignored = (reason: IgnoredReason): ParsedEvent => {
    return { handled: false, reason, type, id: id ?? parts.id };
  };

  const other = ofOthers(parts, { mode, connect });
  if (other !== undefined) return ignored(other);

  const isHandled = hasEffect(type, { format, notify });
  const isCheckout = accountFromCheckout && type === format.checkout?.type;
  const hasHandler = handledTypes.types.has(type);
  if (!isHandled && !isCheckout) {
    // Its type may be one that the setting was to list.
    if (handledTypes.fault !== undefined) {
      throw new DeliveryError("deployment_fault", handledTypes.fault);
    }
    if (!hasHandler) return ignored(parts.isThin ? "thin" : "not_handled");
  }

  const reading = { id, planItem, isHandled, parts };
  const { payment, ...unpaid } = format.read(json, reading);
  checkTime(unpaid, { format, nowSeconds, toleranceSeconds });
  // A failed payment for something other than a subscription.
  if (unpaid.subscription_id === null && !hasHandler) {
    return ignored("no_subscription");
  }

  const event = {
    ...unpaid,
    ...(payment && tells(payment, { notify, nowSeconds }) && { payment }),
    ...(hasHandler && { payload: text }),
  };
  if (isCheckout) {
    const { account_id, isUnusable } = format.checkout!.accountOf(json);
    return {
      handled: true,
      event: { ...event, kind: "checkout", account_id },
      isAccountUnusable: isUnusable,
    };
  }
  const named_account = event.account_id === undefined
    ? namedAccount(json, parts, format)
    : undefined;
  return {
    handled: true,
    event: named_account === undefined ? event : { ...event, named_account },
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

/** @throws {DeliveryError} `event_invalid` if the type is missing or no text. */
function typeOf({ type }: Parts, { names }: Format): string {
  if (typeof type === "string" && type.trim() !== "") return type;
  const fault = type === undefined
    ? " is missing"
    : ": must be a string that is not blank";
  throw new DeliveryError("event_invalid", names.type + fault);
}

/** Returns why an event does not count here: by its mode, or by its account's. */
function ofOthers(
  { livemode, isConnected }: Parts,
  { mode, connect }: { mode: EventMode; connect: boolean },
): IgnoredReason | undefined {
  const isOtherMode = mode !== "any" && typeof livemode === "boolean" &&
    livemode !== (mode === "live");
  if (isOtherMode) return "other_mode";
  return isConnected && !connect ? "connect" : undefined;
}

/** Returns whether events of this type change a record, or tell what accounts are told. */
function hasEffect(
  type: string,
  { format, notify }: { format: Format; notify: ReadonlySet<string> },
): boolean {
  const kind = kindOf(format, type);
  return kind === "notice"
    ? notify.has(format.notices![type]!)
    : kind !== undefined;
}

function checkTime(
  { occurred_at }: HandledEvent,
  { format, nowSeconds, toleranceSeconds }: {
    format: Format;
    nowSeconds: number;
    toleranceSeconds: number;
  },
): void {
  const occurredAt = Date.parse(occurred_at ?? "") / 1000;
  if (occurredAt > nowSeconds + toleranceSeconds) {
    throw new DeliveryError(
      "event_invalid",
      `${format.names.occurred_at}: must not be more than ${toleranceSeconds} s ahead of the receiver's clock`,
    );
  }
}

/** Returns whether an account is told: not of the end of a trial that is over or unknown. */
function tells(
  { kind, trial_end }: Payment,
  { notify, nowSeconds }: { notify: ReadonlySet<string>; nowSeconds: number },
): boolean {
  if (!notify.has(kind) || trial_end === null) return false;
  return trial_end === undefined || Date.parse(trial_end) > nowSeconds * 1000;
}
