export type Environment = Readonly<Record<string, string | undefined>>;

/** See `PROVIDER_A_MODE` in .env.example. */
export type EventMode = "any" | "live" | "test";

/** See `PLAN_ITEM` in docs/stripe.md. */
export type PlanItem = "first" | "licensed";

const NOTIFICATION_KINDS: readonly string[] = [
  ...["payment_failed", "trial_ending", "action_required"],
  ...["recovered", "ended"],
];

export interface DatabaseAccess {
  readonly supabaseUrl: string;
  readonly secretKey: string;
}

export interface EventSettings {
  /**
   * How far a signature's time may be from now, in either direction, and an
   * event's time ahead of now, in seconds.
   */
  readonly toleranceSeconds: number;
  readonly maxBodyBytes: number;
  /** What happens to events of subscriptions without an account. */
  readonly unmappedSubscriptions: "fail" | "ignore";
  /** Whether further failed payments of an invoice create no notification. */
  readonly oncePerInvoice: boolean;
  readonly notify: ReadonlySet<string>;
  readonly planItem: PlanItem;
  readonly handledTypes: HandledTypes;
  /** Whether a checkout says whose its customer is. */
  readonly accountFromCheckout: boolean;
}

export interface Config extends DatabaseAccess, EventSettings {}

/** See `HANDLE_EVENT_TYPES` in docs/handlers.md. */
interface HandledTypes {
  readonly types: ReadonlySet<string>;
  /** What is wrong with the setting; then `types` has those that are well formed. */
  readonly fault?: string;
}

export function cannotStart(fault: string): never {
  throw new Error(`Cannot start: ${fault}`);
}

/** The same as Stripe's. */
export const DEFAULT_TOLERANCE_SECONDS = 300;

/** @throws {Error} If a value is missing or wrong; names the variable. */
export function readConfig(env: Environment): Config {
  const supabaseUrl = required(env, "SUPABASE_URL");
  return { supabaseUrl, secretKey: secretKey(env), ...readEventSettings(env) };
}

export function readEventSettings(env: Environment): EventSettings {
  const word = <Word extends string>(name: string, ...words: Word[]) =>
    choice(env, name, words, cannotStart);
  const isOn = (name: string) => word(name, "false", "true") === "true";
  return {
    toleranceSeconds: wholeNumber(
      env,
      "SIGNATURE_TOLERANCE_SECONDS",
      DEFAULT_TOLERANCE_SECONDS,
    ),
    maxBodyBytes: wholeNumber(env, "MAX_BODY_BYTES", 1_048_576),
    unmappedSubscriptions: word("UNMAPPED_SUBSCRIPTIONS", "fail", "ignore"),
    oncePerInvoice: isOn("NOTIFY_ONCE_PER_INVOICE"),
    notify: readNotify(env),
    planItem: word("PLAN_ITEM", "first", "licensed"),
    handledTypes: readHandledTypes(env),
    accountFromCheckout: isOn("ACCOUNT_FROM_CHECKOUT"),
  };
}

function readNotify(env: Environment): ReadonlySet<string> {
  const words = (env["NOTIFY"] || "payment_failed").split(",")
    .map((word) => word.trim());
  const wrong = words.find((word) => !NOTIFICATION_KINDS.includes(word));
  if (wrong !== undefined) {
    const kinds = NOTIFICATION_KINDS.join(", ");
    cannotStart(`NOTIFY must list some of ${kinds}, not "${wrong}".`);
  }
  return new Set(words);
}

/**
 * Reads `HANDLE_EVENT_TYPES`: types of events, separated by commas. A fault must not
 * stop the events that need no handler, so it is kept.
 */
function readHandledTypes(env: Environment): HandledTypes {
  const text = env["HANDLE_EVENT_TYPES"];
  const named = new Map<string, string>();
  const faults: string[] = [];
  for (const entry of text ? text.split(",") : []) {
    const type = entry.trim();
    const other = named.get(handlerName(type));
    if (!/^[a-z0-9_.-]{1,100}$/.test(type)) {
      faults.push(`"${type.slice(0, 100)}" is no type of an event`);
    } else if (other !== undefined && other !== type) {
      faults.push(`${other} and ${type} would have the same function`);
    } else {
      named.set(handlerName(type), type);
    }
  }
  const types = new Set(named.values());
  return faults.length === 0
    ? { types }
    : { types, fault: `HANDLE_EVENT_TYPES: ${faults.join("; ")}` };
}

/**
 * Returns the name of the function in schema `billing` that handles a type, as
 * `billing.handler_name` does. Postgres keeps 63 characters of it.
 */
export function handlerName(type: string): string {
  return `on_${type.replace(/[^a-z0-9]/g, "_")}`.slice(0, 63);
}

/**
 * Reads one of several words; returns the first if it is not set.
 *
 * @param refuse Throws if it is another word; the fault begins with the name.
 */
export function choice<Word extends string>(
  env: Environment,
  name: string,
  words: readonly Word[],
  refuse: (fault: string) => never,
): Word {
  const text = env[name] || words[0];
  return words.find((word) => word === text) ??
    refuse(`${name} must be ${words.join(" or ")}, not "${text}".`);
}

/** Returns the secret key named `default`, or the first if there is none. */
function secretKey(env: Environment): string {
  const keys = readKeyMap(env, {
    map: "SUPABASE_SECRET_KEYS",
    legacy: "SUPABASE_SERVICE_ROLE_KEY",
  });
  const key = keys.default ?? Object.values(keys)[0]!;
  return checkKey(key, "Cannot start: the project's secret key");
}

/**
 * Reads the project's keys of one kind, by name.
 *
 * @param names.legacy Variable with the legacy key, which becomes `default`.
 * @throws {Error} If neither is set, or the map is not a JSON object.
 */
export function readKeyMap(
  env: Environment,
  { map, legacy }: { map: string; legacy: string },
): Record<string, string> {
  const keys = env[map] ? parseKeyMap(env[map], map) : {};
  return Object.keys(keys).length > 0
    ? keys
    : { default: required(env, legacy, `${map} (or ${legacy})`) };
}

function parseKeyMap(json: string, name: string): Record<string, string> {
  try {
    const map: unknown = JSON.parse(json);
    if (typeof map === "object" && map !== null) {
      return Object.fromEntries(
        Object.entries(map).filter(([, key]) => key && typeof key === "string"),
      );
    }
  } catch {
    // Reported below, without this error's text: it may repeat part of a key.
  }
  cannotStart(`${name} must be a JSON object that maps names to keys.`);
}

function required(env: Environment, name: string, text = name): string {
  return env[name] || cannotStart(
    `${text} is not set. Supabase sets it automatically; on another platform, set it in the environment.`,
  );
}

export function wholeNumber(
  env: Environment,
  name: string,
  defaultValue: number,
): number {
  const text = env[name] || `${defaultValue}`;
  if (!/^[1-9]\d{0,9}$/.test(text)) {
    cannotStart(`${name} must be a whole number above 0, not "${text}".`);
  }
  return Number(text);
}

/**
 * Returns a key that is sent in a header.
 *
 * @throws {Error} If the key contains a line break or a NUL character. `fetch`
 * refuses such a key too, but its error repeats the key, and errors are logged.
 * White space around the key is no fault: `fetch` removes it.
 */
export function checkKey(key: string, name: string): string {
  if (/\0|\S\s*[\r\n]\s*\S/.test(key)) {
    throw new Error(
      `${name} contains a line break or a NUL character: copy it again, as one line.`,
    );
  }
  return key;
}
