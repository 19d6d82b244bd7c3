import { checkKey } from "./check_key.ts";
import { UNMAPPED_CHOICES, type UnmappedChoice } from "./unmapped.ts";

/** The environment, as `Deno.env.toObject()` returns it. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Where the database is, and the key to it. */
export interface DatabaseAccess {
  readonly supabaseUrl: string;
  readonly secretKey: string;
}

/** The configuration that both functions need. */
export interface Config extends DatabaseAccess {
  /**
   * How far a signature's time may be from now, in either direction, and an
   * event's time ahead of now, in seconds.
   */
  readonly toleranceSeconds: number;
  readonly maxBodyBytes: number;
  /** What happens to events of subscriptions without an account. */
  readonly unmappedSubscriptions: UnmappedChoice;
  /** Whether further failed payments of an invoice create no notification. */
  readonly oncePerInvoice: boolean;
}

/** The same as Stripe's. */
export const DEFAULT_TOLERANCE_SECONDS = 300;

/**
 * Reads the configuration that both functions need.
 *
 * @throws {Error} If a value is missing or wrong; names the variable.
 */
export function readConfig(env: Environment): Config {
  return {
    supabaseUrl: required(env, "SUPABASE_URL"),
    secretKey: secretKey(env),
    toleranceSeconds: wholeNumber(
      env,
      "SIGNATURE_TOLERANCE_SECONDS",
      DEFAULT_TOLERANCE_SECONDS,
    ),
    maxBodyBytes: wholeNumber(env, "MAX_BODY_BYTES", 1_048_576),
    unmappedSubscriptions: readUnmapped(env),
    oncePerInvoice: readOncePerInvoice(env),
  };
}

/**
 * Reads `UNMAPPED_SUBSCRIPTIONS`: what happens to events of subscriptions
 * without an account.
 *
 * @throws {Error} If the value is neither `fail` nor `ignore`.
 */
export function readUnmapped(env: Environment): UnmappedChoice {
  const text = env["UNMAPPED_SUBSCRIPTIONS"] || "fail";
  const choice = UNMAPPED_CHOICES.find((choice) => choice === text);
  if (choice === undefined) {
    throw new Error(
      `Cannot start: UNMAPPED_SUBSCRIPTIONS must be ${
        UNMAPPED_CHOICES.join(" or ")
      }, not "${text}".`,
    );
  }
  return choice;
}

/**
 * Reads `NOTIFY_ONCE_PER_INVOICE`: whether further failed payments of an invoice
 * create no notification.
 *
 * @throws {Error} If the value is neither `true` nor `false`.
 */
export function readOncePerInvoice(env: Environment): boolean {
  const text = env["NOTIFY_ONCE_PER_INVOICE"] || "false";
  if (text !== "true" && text !== "false") {
    throw new Error(
      `Cannot start: NOTIFY_ONCE_PER_INVOICE must be true or false, not "${text}".`,
    );
  }
  return text === "true";
}

/** Returns the secret key named `default`, or the first if there is none. */
function secretKey(env: Environment): string {
  const keys = readKeyMap(env, {
    map: "SUPABASE_SECRET_KEYS",
    legacy: "SUPABASE_SERVICE_ROLE_KEY",
  });
  const key = keys.default ?? Object.values(keys)[0] ?? "";
  return checkKey(key, "Cannot start: the project's secret key");
}

/**
 * Reads the project's keys of one kind, by name.
 *
 * @param names.map Variable with the new keys, a JSON object; read first.
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
  throw new Error(
    `Cannot start: ${name} must be a JSON object that maps names to keys.`,
  );
}

function required(env: Environment, name: string, text = name): string {
  const value = env[name];
  if (!value) {
    throw new Error(
      `Cannot start: ${text} is not set. Supabase sets it automatically; on another platform, set it in the environment.`,
    );
  }
  return value;
}

/**
 * Reads a whole number above 0; returns the default if it is not set.
 *
 * @throws {Error} If the value is something else; names the variable.
 */
export function wholeNumber(
  env: Environment,
  name: string,
  defaultValue: number,
): number {
  const text = env[name];
  if (text === undefined || text === "") return defaultValue;
  if (!/^[1-9]\d{0,9}$/.test(text)) {
    throw new Error(
      `Cannot start: ${name} must be a whole number above 0, not "${text}".`,
    );
  }
  return Number(text);
}
