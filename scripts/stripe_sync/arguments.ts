/**
 * The part of the command line that `deno task import` and `deno task reconcile`
 * share.
 *
 * @module
 */
import {
  readOncePerInvoice,
  readUnmapped,
} from "../../supabase/functions/_shared/billing/config.ts";
import { UsageError, type Values } from "../common/cli.ts";
import {
  givenProjectUrl,
  localSecrets,
  oneOf,
  projectKey,
  PROVIDER_OPTION,
  readProvider,
  type Surroundings,
} from "../common/option_values.ts";
import { isLoopback, LOCAL_PROJECT_URL } from "../common/loopback.ts";

const MODES = ["test", "live"] as const;

/** Which provider's account, and which project. */
export type Target = Readonly<ReturnType<typeof readTarget>>;

/** The options that both commands have. */
export const TARGET_OPTIONS = {
  "--mode test|live":
    "required for a live key, and for a project that is not local; must match the key",
  ...PROVIDER_OPTION,
  "--account-from KEY":
    'where to find the account ID if metadata.accountId is missing: another key of the metadata, or "customer" for the customer\'s ID',
  "--project-url URL":
    `https://<project-ref>.supabase.co, also SUPABASE_URL (default: the local stack that runs, else ${LOCAL_PROJECT_URL})`,
  "--stripe-url URL": "a stand-in for Stripe on this machine, for tests",
} as const;

/** The environment variables that both commands read. */
export const TARGET_ENVIRONMENT = {
  SUPABASE_SECRET_KEY:
    "sb_secret_... (default for a local project: the local stack's).",
  STRIPE_API_KEY:
    "sk_test_..., rk_test_..., sk_live_... or rk_live_... A restricted key (rk_) needs permission to read subscriptions and events.",
  UNMAPPED_SUBSCRIPTIONS:
    'as in the receiver: with "ignore", a subscription without an account ID is not an error',
};

/**
 * Returns which provider's account and which project the options name.
 *
 * @throws {UsageError}
 */
export function readTarget(
  values: Values<typeof TARGET_OPTIONS>,
  here: Surroundings,
) {
  const { env } = here;
  const given = givenProjectUrl(values["project-url"], env);
  const local = given === undefined ? here.local : undefined;
  const projectUrl = given ?? local?.apiUrl ?? LOCAL_PROJECT_URL;
  const secrets = local === undefined
    ? env
    : localSecrets({ SUPABASE_SECRET_KEY: local.secretKey }, here);
  const apiKey = env["STRIPE_API_KEY"] ?? "";
  const isLocal = isLoopback(projectUrl);
  return {
    apiKey,
    mode: readMode(apiKey, { confirmed: values.mode, isLocal }),
    /** Undefined for Stripe's own. */
    stripeUrl: loopbackAddress(values["stripe-url"]),
    /** Without a slash at its end. */
    projectUrl,
    secretKey: projectKey(projectUrl, secrets),
    /** The provider of the subscriptions in the tables. */
    provider: readProvider(values.provider),
    /** Where the account ID is if `metadata.accountId` is missing. */
    accountFrom: values["account-from"],
    unmappedSubscriptions: asUsage(() => readUnmapped(env)),
    /** Whether further failed payments of an invoice create no notification. */
    oncePerInvoice: asUsage(() => readOncePerInvoice(env)),
  };
}

/**
 * Returns the mode of a Stripe key. Unless a test key meets a local project,
 * `--mode` has to confirm it: nobody notices at once that the tables of one mode
 * contain data of the other.
 */
function readMode(
  apiKey: string,
  { confirmed, isLocal }: { confirmed: string | undefined; isLocal: boolean },
): typeof MODES[number] {
  if (apiKey === "") {
    throw new UsageError(
      "STRIPE_API_KEY is not set. Copy a key from Stripe's dashboard (Developers, API keys).",
    );
  }
  const ofKey = /^[sr]k_(test|live)_\S+$/.exec(apiKey)?.[1];
  if (ofKey === undefined) {
    throw new UsageError(
      "STRIPE_API_KEY must begin with sk_test_, rk_test_, sk_live_ or rk_live_.",
    );
  }
  if (confirmed === undefined) {
    if (ofKey === "test" && isLocal) return "test";
    const project = isLocal
      ? "but the project is local"
      : "and the project is not local";
    throw new UsageError(
      `STRIPE_API_KEY is a ${ofKey} key, ${project}. If that is intended, add --mode ${ofKey}.`,
    );
  }
  const mode = oneOf(MODES, { value: confirmed, what: "mode" });
  if (mode === ofKey) return mode;
  throw new UsageError(
    `STRIPE_API_KEY is a ${ofKey} key, which does not match --mode ${mode}.`,
  );
}

/** A wrong setting is reported like a wrong option. */
function asUsage<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

/** The API key is sent there, so only this machine is allowed. */
function loopbackAddress(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const url = URL.parse(text);
  const isHttp = /^https?:$/.test(url?.protocol ?? "");
  if (isHttp && isLoopback(text) && url?.port !== "") return text;
  throw new UsageError(
    "--stripe-url takes a URL on this machine, with a port.",
  );
}
