import { UNMAPPED_CHOICES, type UnmappedChoice } from "./unmapped.ts";

/** The environment, as `Deno.env.toObject()` gives it. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Where the database is reached, and with which right. */
export interface DatabaseAccess {
  readonly supabaseUrl: string;
  readonly secretKey: string;
}

/** What all providers share: the database, and how deliveries are treated. */
export interface Config extends DatabaseAccess {
  /**
   * How far a signature's time may be from now, on both sides, and an event's
   * ahead of now, in seconds.
   */
  readonly toleranceSeconds: number;
  readonly maxBodyBytes: number;
  /** Whether events of subscriptions that belong to no account fail. */
  readonly unmappedSubscriptions: UnmappedChoice;
}

/** Stripe's own. */
export const DEFAULT_TOLERANCE_SECONDS = 300;

/**
 * Reads the configuration that all providers share.
 *
 * @throws {Error} naming the variable and what it has to be.
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
  };
}

/**
 * Reads what is done with subscriptions that belong to no account.
 *
 * @throws {Error} naming the variable and what it has to be.
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

/** The project's default secret key, or its first where none is so named. */
function secretKey(env: Environment): string {
  const keys = readKeyMap(env, {
    map: "SUPABASE_SECRET_KEYS",
    legacy: "SUPABASE_SERVICE_ROLE_KEY",
  });
  return keys.default ?? Object.values(keys)[0] ?? "";
}

/**
 * The project's keys of a kind by their names: the map of new keys first, the
 * one of the legacy kind, as `default`, second.
 *
 * @throws {Error} Where neither is set, or the map is none.
 */
export function readKeyMap(
  env: Environment,
  { map, legacy }: { map: string; legacy: string },
): Record<string, string> {
  const keys = env[map] ? parseKeyMap(env[map], map) : {};
  return Object.keys(keys).length > 0
    ? keys
    : { default: required(env, legacy) };
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
    // Said below, without the text of the error: it would repeat a part of a key.
  }
  throw new Error(`Cannot start: ${name} is not a JSON object.`);
}

function required(env: Environment, name: string): string {
  const value = env[name];
  if (!value) {
    throw new Error(
      `Cannot start: ${name} is not set. Supabase sets it by itself; elsewhere, set it in the environment.`,
    );
  }
  return value;
}

/**
 * Reads a whole number above 0, or gives the standard one if it is not set.
 *
 * @throws {Error} naming the variable and what it has to be.
 */
export function wholeNumber(
  env: Environment,
  name: string,
  standard: number,
): number {
  const text = env[name];
  if (text === undefined || text === "") return standard;
  if (!/^[1-9]\d{0,9}$/.test(text)) {
    throw new Error(
      `Cannot start: ${name} must be a whole number above 0, not "${text}".`,
    );
  }
  return Number(text);
}
