/**
 * What `deno task import` and `deno task reconcile` have in common on their
 * command lines.
 *
 * @module
 */
import { readUnmapped } from "../../supabase/functions/_shared/billing/config.ts";
import type { UnmappedChoice } from "../../supabase/functions/_shared/billing/unmapped.ts";
import { isLoopback } from "../common/loopback.ts";
import { checkedProjectUrl } from "../common/project_url.ts";
import { readSecret } from "../common/secret_option.ts";
import type { Environment } from "../common/environment.ts";
import { oneOf, UsageError } from "../common/checked.ts";
import {
  PROVIDER_NAMES,
  type ProviderName,
} from "../common/provider_settings.ts";
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

/** What is around a command, apart from its command line. */
export interface CommandSurroundings {
  /** The command's environment. */
  readonly env: Environment;
  /** The local stack's. */
  readonly localSecretKey: string;
  /** Receives warnings, for standard error. */
  readonly warn: (text: string) => void;
}

/**
 * Reads which provider's account and which project are meant.
 *
 * @throws {UsageError}
 */
export function readTarget(
  values: TargetValues,
  { env, localSecretKey, warn }: CommandSurroundings,
): Target {
  const option = values["project-url"];
  const projectUrl = option === undefined
    ? checkedProjectUrl("SUPABASE_URL", env["SUPABASE_URL"] || LOCAL_PROJECT)
    : checkedProjectUrl("--project-url", option);
  const isHere = isLoopback(projectUrl);
  const secretKey = readSecret({
    option: "secret-key",
    value: values["secret-key"],
    variable: "SUPABASE_SECRET_KEY",
  }, { env, warn }) || (isHere ? localSecretKey : "");
  if (secretKey === "") {
    throw new UsageError(
      `${projectUrl} needs SUPABASE_SECRET_KEY: sb_secret_... (dashboard, Project Settings, API Keys).`,
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

/** The key goes there: nowhere but to this machine. */
function loopbackAddress(text: string): string {
  const url = URL.parse(text);
  const isHttp = /^https?:$/.test(url?.protocol ?? "");
  if (isHttp && isLoopback(text) && url?.port !== "") return text;
  throw new UsageError(
    "--stripe-url takes an address on this machine, with its port.",
  );
}
