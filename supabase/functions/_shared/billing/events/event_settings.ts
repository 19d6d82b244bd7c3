/** The settings for reading events, the same for all providers. */
import {
  cannotStart,
  choice,
  type Environment,
  wholeNumber,
} from "../environment.ts";

export const NOTIFICATION_KINDS = [
  "payment_failed",
  "trial_ending",
  "action_required",
  "recovered",
  "ended",
] as const;

export type NotificationKind = typeof NOTIFICATION_KINDS[number];

/** The same as Stripe's. */
export const DEFAULT_TOLERANCE_SECONDS = 300;

export type EventSettings = Readonly<ReturnType<typeof readEventSettings>>;

/** Which of several items is the plan: docs/stripe.md. */
export type PlanItem = EventSettings["planItem"];

type HandlerTypes = Readonly<{
  types: ReadonlySet<string>;
  /** Why the setting is malformed; `types` then has only the valid ones. */
  fault?: string;
}>;

export function readEventSettings(env: Environment) {
  const isOn = (name: string) =>
    choice(env, name, ["false", "true"]) === "true";

  return {
    /**
     * How far a signature's time may be from now, in either direction, and an
     * event's time ahead of now.
     */
    toleranceSeconds: wholeNumber(
      env,
      "SIGNATURE_TOLERANCE_SECONDS",
      DEFAULT_TOLERANCE_SECONDS,
    ),
    maxBodyBytes: wholeNumber(env, "MAX_BODY_BYTES", 1_048_576),
    /** What happens to events of subscriptions without an account. */
    unmappedSubscriptions: choice(env, "UNMAPPED_SUBSCRIPTIONS", [
      "fail",
      "ignore",
    ]),
    /** Whether further failed payments of an invoice create no notification. */
    oncePerInvoice: isOn("NOTIFY_ONCE_PER_INVOICE"),
    notify: readNotify(env),
    planItem: choice(env, "PLAN_ITEM", ["first", "licensed"]),
    handlerTypes: readHandlerTypes(env),
    accountFromCheckout: isOn("ACCOUNT_FROM_CHECKOUT"),
  };
}

function readNotify(env: Environment): ReadonlySet<string> {
  const words = (env["NOTIFY"] || "payment_failed").split(",")
    .map((word) => word.trim());
  const kinds: readonly string[] = NOTIFICATION_KINDS;
  const wrong = words.find((word) => !kinds.includes(word));
  if (wrong !== undefined) {
    const all = kinds.join(", ");
    cannotStart(`NOTIFY must list some of ${all}, not "${wrong}".`);
  }
  return new Set(words);
}

/** A fault is returned and not thrown, so that events without a handler are accepted. */
function readHandlerTypes(env: Environment): HandlerTypes {
  const text = env["HANDLE_EVENT_TYPES"];
  const typeByHandler = new Map<string, string>();
  const faults: string[] = [];

  for (const entry of text ? text.split(",") : []) {
    const type = entry.trim();
    const handler = handlerName(type);
    const other = typeByHandler.get(handler);
    if (!/^[a-z0-9_.-]{1,100}$/.test(type)) {
      faults.push(`"${type.slice(0, 100)}" is not an event type`);
    } else if (other !== undefined && other !== type) {
      faults.push(`${other} and ${type} would have the same function`);
    } else {
      typeByHandler.set(handler, type);
    }
  }

  const types = new Set(typeByHandler.values());
  return faults.length === 0
    ? { types }
    : { types, fault: `HANDLE_EVENT_TYPES: ${faults.join("; ")}` };
}

/**
 * Returns the name of the SQL function that handles a type, as `billing.handler_name`
 * does. Postgres keeps 63 characters of it.
 */
export function handlerName(type: string): string {
  return `on_${type.replace(/[^a-z0-9]/g, "_")}`.slice(0, 63);
}
