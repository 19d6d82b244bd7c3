/**
 * Checks and sources of option values that several commands share.
 *
 * @module
 */
import { checkKey } from "../../supabase/functions/_shared/billing/config.ts";
import { UsageError } from "./cli.ts";
import { closest } from "./closest.ts";
import type { Environment } from "./environment.ts";
import { isLoopback } from "./loopback.ts";
import { PROVIDER_NAMES, type ProviderName } from "./provider_settings.ts";

/** The option that names a provider of the receiver. */
export const PROVIDER_OPTION = {
  "--provider NAME": `the provider: ${
    PROVIDER_NAMES.join(" or ")
  } (default: a)`,
} as const;

/**
 * Returns the provider that the option names.
 *
 * @throws {UsageError}
 */
export function readProvider(value: string = "a"): ProviderName {
  return oneOf(PROVIDER_NAMES, { value, what: "provider" });
}

/**
 * Returns the choice that equals a value. The value is not a secret: the
 * message repeats it.
 *
 * @param options.what The name of the value in the message, such as "provider".
 * @throws {UsageError}
 */
export function oneOf<T extends string>(
  choices: readonly T[],
  { value, what }: { value: string; what: string },
): T {
  const choice = choices.find((choice) => choice === value);
  if (choice !== undefined) return choice;
  const meant = closest(value, choices);
  throw new UsageError(
    `Unknown ${what} "${value}". ` +
      (meant === undefined
        ? `Choose one of ${choices.join(", ")}.`
        : `Did you mean ${meant}?`),
  );
}

/**
 * Returns the URL of a project without slashes at its end. The project's secret
 * key is sent there, so it must be https, or http on this machine.
 *
 * @param name The option or variable that the URL comes from.
 * @throws {UsageError}
 */
export function checkedProjectUrl(name: string, text: string): string {
  const url = safeUrl(text);
  if (url?.username === "" && url.password === "" && isWhole(url)) {
    return url.origin + url.pathname.replace(/\/+$/, "");
  }
  // The message leaves the text out: it may contain a password.
  throw new UsageError(
    `${name} takes a URL such as https://abc.supabase.co, without a user name or password. http is allowed on this machine only.`,
  );
}

/**
 * Returns the URL of the project that the option, or else SUPABASE_URL, names;
 * undefined if neither does.
 *
 * @param option The value of --project-url.
 * @throws {UsageError}
 */
export function givenProjectUrl(
  option: string | undefined,
  env: Environment,
): string | undefined {
  if (option !== undefined) return checkedProjectUrl("--project-url", option);
  const variable = env["SUPABASE_URL"];
  return variable ? checkedProjectUrl("SUPABASE_URL", variable) : undefined;
}

/** Returns a URL that a key may be sent to: https, or http on this machine. */
export function safeUrl(text: string): URL | undefined {
  const url = URL.parse(text);
  const isSafe = url?.protocol === "https:" ||
    (url?.protocol === "http:" && isLoopback(text));
  return isSafe ? url : undefined;
}

/** Returns whether it is a project's URL, to which paths can be added. */
function isWhole({ search, hash, pathname }: URL): boolean {
  return search === "" && hash === "" && !pathname.includes("/functions/v1");
}

/**
 * Returns a key that is sent in a header.
 *
 * @param name The variable that the key comes from.
 * @throws {UsageError} The message does not repeat the key.
 */
export function checkedKey(name: string, key: string): string {
  try {
    return checkKey(key, name);
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

/**
 * Returns a secret; undefined if its variable is not set. No option takes one:
 * every user of the machine sees it in the list of processes, and `deno task`
 * prints it.
 *
 * @throws {UsageError} If it has a line break.
 */
export function readSecret(
  variable: string,
  env: Environment,
): string | undefined {
  const set = env[variable];
  return set ? checkedKey(variable, set) : undefined;
}
