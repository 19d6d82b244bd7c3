import type { z } from "zod/mini";
import { DeliveryError } from "./errors.ts";
import { type EventMode, isOfOtherMode } from "./event_mode.ts";
import { type HandledEvent, handledEvent, isHandledType } from "./events.ts";
import { describeFault, member, MISSING } from "./fields.ts";

const MAX_REPORTED_FAULTS = 5;

/** An event of a handled type, or the reason why the event has no effect. */
export type ParsedEvent =
  | { readonly handled: true; readonly event: HandledEvent }
  | {
    readonly handled: false;
    readonly reason: "not_handled" | "other_mode" | "thin";
    readonly type: string;
    readonly id: unknown;
  };

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
 * @throws {DeliveryError} `body_empty`, `body_not_json` or `event_invalid`. The
 * message names the path of each bad field, never its value.
 */
export function parseEvent(
  text: string,
  { nowSeconds, toleranceSeconds, mode = "any" }: {
    nowSeconds: number;
    toleranceSeconds: number;
    mode?: EventMode;
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
  if (isOfOtherMode(member(json, "livemode"), mode)) {
    return { handled: false, reason: "other_mode", type, id };
  }
  if (!isHandledType(type)) {
    const reason = isThin(json, type) ? "thin" : "not_handled";
    return { handled: false, reason, type, id };
  }

  const result = handledEvent.safeParse(json, { error: describeFault });
  if (!result.success) {
    throw new DeliveryError("event_invalid", describe(result.error));
  }
  const event = result.data;
  const created = Date.parse(event.created ?? "") / 1000;
  if (created > nowSeconds + toleranceSeconds) {
    throw new DeliveryError(
      "event_invalid",
      `created: must not be more than ${toleranceSeconds} s ahead of the receiver's clock`,
    );
  }
  return event.subscription_id === null
    ? { handled: false, reason: "not_handled", type, id }
    : { handled: true, event };
}

/**
 * Returns whether an event names an object without its content.
 *
 * @see https://docs.stripe.com/event-destinations
 */
function isThin(json: unknown, type: string): boolean {
  return type.startsWith("v1.") || type.startsWith("v2.") ||
    member(json, "object") === "v2.core.event";
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
    .map(({ path, message }) =>
      `${formatPath(path)}${message === MISSING ? "" : ":"} ${message}`
    )
    .join("; ");
}

function formatPath(path: readonly PropertyKey[]): string {
  return path.map((part) =>
    typeof part === "number" ? `[${part}]` : `.${String(part)}`
  ).join("").slice(1);
}
