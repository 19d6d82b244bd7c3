import type { Environment } from "../../_shared/billing/config.ts";

/** At least 12 bytes. The padding may be missing, as some tools omit it. */
const SECRET =
  /^whsec_(?:[A-Za-z0-9+/]{4}){4,}(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$/;

/**
 * Checks the URL of a receiver.
 *
 * @param name The setting that holds it.
 * @throws {Error} If it is no https URL (or http on this machine), or contains
 * credentials; names the setting, never its value.
 */
export function checkUrl(text: string, name: string): void {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isLoopback = url !== undefined &&
    /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/.test(url.hostname);
  if (
    url?.protocol !== "https:" && !(url?.protocol === "http:" && isLoopback)
  ) {
    throw new Error(
      `Cannot start: ${name} must be an https URL (http is allowed only for localhost).`,
    );
  }
  if (url.username !== "" || url.password !== "") {
    throw new Error(
      `Cannot start: ${name} must not contain a user name or password. The receiver verifies the signature instead.`,
    );
  }
}

/**
 * Reads a Standard Webhooks secret.
 *
 * @throws {Error} If it is missing or malformed; names the setting.
 */
export function readSecret(env: Environment, name: string): string {
  const secret = required(env, name);
  if (!SECRET.test(secret)) {
    throw new Error(
      `Cannot start: ${name} must be whsec_ followed by base64 of at least 12 bytes. Create one with: echo whsec_$(openssl rand -base64 32)`,
    );
  }
  return secret;
}

/**
 * Reads a setting that the chosen channel needs.
 *
 * @throws {Error} If it is missing; names it.
 */
export function required(env: Environment, name: string): string {
  const value = env[name];
  if (!value) {
    throw new Error(
      `Cannot start: ${name} is not set. docs/notifications.md says what it must be.`,
    );
  }
  return value;
}
