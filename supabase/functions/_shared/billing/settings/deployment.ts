import { cannotStart, type Environment } from "../environment.ts";
import { readEventSettings } from "../events/event_settings.ts";

/** @throws {Error} If a value is missing or wrong; names the variable. */
export function readDeploymentSettings(env: Environment) {
  const supabaseUrl = required(env, "SUPABASE_URL");
  const keys = readSecretKeys(env);
  const key = keys["default"] ?? Object.values(keys)[0]!;
  const secretKey = checkKey(key, "Cannot start: the project's secret key");
  return { supabaseUrl, secretKey, ...readEventSettings(env) };
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
 * Returns a key that is sent in a header; `fetch` removes white space around it.
 *
 * @throws {Error} If the key contains a line break or a NUL character. `fetch` refuses
 * it too, but its error repeats the key, and errors are logged.
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
