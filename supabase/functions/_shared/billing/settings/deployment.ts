import type { DatabaseAccess } from "../database/client.ts";
import { cannotStart, type Environment } from "../environment.ts";
import {
  type EventSettings,
  readEventSettings,
} from "../events/event_settings.ts";

export interface DeploymentSettings extends DatabaseAccess, EventSettings {}

/** @throws {Error} If a value is missing or wrong; names the variable. */
export function readDeploymentSettings(env: Environment): DeploymentSettings {
  return {
    supabaseUrl: required(env, "SUPABASE_URL"),
    secretKey: secretKey(env),
    ...readEventSettings(env),
  };
}

/** Returns the secret key named `default`, or the first if there is none. */
function secretKey(env: Environment): string {
  const keys = readSecretKeys(env);
  const key = keys["default"] ?? Object.values(keys)[0]!;
  return checkKey(key, "Cannot start: the project's secret key");
}

const KEYS = "SUPABASE_SECRET_KEYS";
const LEGACY_KEY = "SUPABASE_SERVICE_ROLE_KEY";

/**
 * Reads the project's secret keys, by name; a legacy key becomes `default`.
 *
 * @throws {Error} If none is set, or the map is not a JSON object.
 */
export function readSecretKeys(env: Environment): Record<string, string> {
  const keys = env[KEYS] ? parseKeys(env[KEYS]) : {};
  return Object.keys(keys).length > 0
    ? keys
    : { default: required(env, LEGACY_KEY, `${KEYS} (or ${LEGACY_KEY})`) };
}

function parseKeys(json: string): Record<string, string> {
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
  cannotStart(`${KEYS} must be a JSON object that maps names to keys.`);
}

function required(env: Environment, name: string, text = name): string {
  return env[name] || cannotStart(
    `${text} is not set. Supabase sets it automatically; on another platform, set it in the environment.`,
  );
}

/**
 * Returns a key that is sent in a header.
 *
 * @throws {Error} If the key contains a line break or a NUL character. `fetch`
 * refuses such a key too, but its error repeats the key, and errors are logged.
 * White space around the key is allowed: `fetch` removes it.
 */
export function checkKey(key: string, name: string): string {
  if (/\0|\S\s*[\r\n]\s*\S/.test(key)) {
    throw new Error(
      `${name} contains a line break or a NUL character: copy it again, as one line.`,
    );
  }
  return key;
}

/** Returns whether secrets may go to a URL: over https, or to this machine. */
export function isSafeUrl(text: string): boolean {
  // A user name may look like a host.
  const origin = URL.parse(text)?.origin ?? "";
  return /^https:|^http:\/\/(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?$/
    .test(origin);
}
