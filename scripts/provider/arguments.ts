/**
 * What `deno task import` and `deno task reconcile` have in common on their
 * command lines.
 *
 * @module
 */
import { readUnmapped } from "../../supabase/functions/_shared/config.ts";
import type { UnmappedChoice } from "../../supabase/functions/_shared/unmapped.ts";
import { isLoopback } from "../common/loopback.ts";
import type { Environment } from "../stack/environment.ts";
import { oneOf, UsageError } from "../trigger/checked.ts";
import {
  PROVIDER_NAMES,
  type ProviderName,
} from "../trigger/provider_settings.ts";
import { type Mode, readMode } from "./read_mode.ts";

/** Which provider's account, and which project. */
export interface Target {
  readonly apiKey: string;
  readonly mode: Mode;
  /** Another address than Stripe's. */
  readonly stripeUrl: string | undefined;
  /** Without a slash at its end. */
  readonly projectUrl: string;
  readonly secretKey: string;
  /** Whose subscriptions they are in the tables. */
  readonly provider: ProviderName;
  /** Where the account id is where `metadata.accountId` is not set. */
  readonly accountFrom: string | undefined;
  readonly unmappedSubscriptions: UnmappedChoice;
}

/** For `parseArgs()`. */
export const TARGET_OPTIONS = {
  mode: { type: "string" },
  provider: { type: "string", default: "a" },
  "project-url": { type: "string" },
  "secret-key": { type: "string" },
  "account-from": { type: "string" },
  "stripe-url": { type: "string" },
  help: { type: "boolean", short: "h", default: false },
} as const;

/** Where `deno task start` and `supabase start` have the project. */
export const LOCAL_PROJECT = "http://127.0.0.1:54321";

/** The options as `parseArgs()` gives them. */
export type TargetValues = {
  readonly [Name in Exclude<keyof typeof TARGET_OPTIONS, "help">]?:
    | string
    | undefined;
};

/**
 * Reads which provider's account and which project are meant.
 *
 * @param env The command's environment.
 * @param local The local stack's secret key.
 * @throws {UsageError}
 */
export function readTarget(
  values: TargetValues,
  { env, localSecretKey }: { env: Environment; localSecretKey: string },
): Target {
  const projectUrl = checkedAddress("project-url", {
    text: values["project-url"] ?? (env["SUPABASE_URL"] || LOCAL_PROJECT),
  }).replace(/\/+$/, "");
  const isHere = isLoopback(projectUrl);
  const secretKey = values["secret-key"] ?? (env["SUPABASE_SECRET_KEY"] ||
    (isHere ? localSecretKey : ""));
  if (secretKey === "") {
    throw new UsageError(
      `${projectUrl} needs --secret-key or SUPABASE_SECRET_KEY: sb_secret_... (dashboard, Project Settings, API Keys).`,
    );
  }
  const apiKey = env["STRIPE_API_KEY"] ?? "";
  return {
    apiKey,
    mode: readMode(apiKey, { said: values.mode, isHere }),
    stripeUrl: values["stripe-url"] === undefined
      ? undefined
      : loopbackAddress(values["stripe-url"]),
    projectUrl,
    secretKey,
    provider: oneOf(PROVIDER_NAMES, {
      value: values.provider,
      what: "provider",
    }),
    accountFrom: values["account-from"],
    unmappedSubscriptions: unmappedChoice(env),
  };
}

function unmappedChoice(env: Environment): UnmappedChoice {
  try {
    return readUnmapped(env);
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

function checkedAddress(option: string, { text }: { text: string }): string {
  if (/^https?:$/.test(URL.parse(text)?.protocol ?? "")) return text;
  throw new UsageError(`--${option} takes an http or https address.`);
}

/** The key goes there: nowhere but to this machine. */
function loopbackAddress(text: string): string {
  const url = checkedAddress("stripe-url", { text });
  if (isLoopback(url) && new URL(url).port !== "") return url;
  throw new UsageError(
    "--stripe-url takes an address on this machine, with its port.",
  );
}
