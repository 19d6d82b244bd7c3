/** The common part of `deno task import`, `reconcile` and `rehearse`. */
import { setTimeout as sleep } from "node:timers/promises";
import { readEventSettings } from "../../supabase/functions/_shared/billing/events/event_settings.ts";
import { createClient } from "../../supabase/functions/_shared/billing/database/client.ts";
import {
  readFormatName,
  settingsPrefix,
} from "../../supabase/functions/_shared/billing/settings/providers.ts";
import {
  printError,
  reportEnd,
  UsageError,
  type Values,
} from "../common/cli.ts";
import { isLoopback } from "../common/loopback.ts";
import {
  lookAround,
  oneOf,
  PROJECT_ENVIRONMENT,
  PROJECT_OPTION,
  projectKey,
  PROVIDER_OPTION,
  readProject,
  readProvider,
  type Surroundings,
} from "../common/option_values.ts";
import { openApi } from "../common/project_api.ts";
import type { ProviderName } from "../common/sign.ts";
import type { Wait } from "./retry.ts";
import { openStripeSource, type StripeSource } from "./stripe_source.ts";
import { openTables, type Tables } from "./tables.ts";

export const PLACE_OPTIONS = {
  ...PROVIDER_OPTION,
  ...PROJECT_OPTION,
  "--stripe-url URL": "a stand-in for Stripe on this machine, for tests",
} as const;

export const TARGET_OPTIONS = {
  "--mode test|live":
    "required for a live key, and for a project that is not local; must match the key",
  "--account-from KEY":
    'where to find the account ID if metadata.accountId is missing: another key of the metadata, or "customer" for the customer\'s ID',
  ...PLACE_OPTIONS,
} as const;

export const TARGET_ENVIRONMENT = {
  ...PROJECT_ENVIRONMENT,
  STRIPE_API_KEY:
    "sk_test_..., rk_test_..., sk_live_... or rk_live_... A restricted key (rk_) needs permission to read subscriptions and events.",
  UNMAPPED_SUBSCRIPTIONS:
    'as in the receiver: with "ignore", a subscription without an account ID is not an error',
  PLAN_ITEM: "as in the receiver: which item of a subscription is its plan",
};

export type Target = Readonly<ReturnType<typeof readTarget>>;

export interface Context extends
  Pick<
    Target,
    | "provider"
    | "accountFrom"
    | "unmappedSubscriptions"
    | "planItem"
    | "notify"
    | "oncePerInvoice"
  > {
  readonly stripe: StripeSource;
  readonly tables: Tables;
  readonly wait: Wait;
}

/** Longer than any existing project takes to answer. */
const CHECK_LIMIT_MS = 10_000;

/** The exit code after an error; 1 means that something differs. */
export const FAILED = 3;

/** May be interrupted: nothing is applied in part, and the next run does the rest. */
export async function runCommand<Arguments extends Target>(
  parse: (args: readonly string[], here: Surroundings) => Arguments,
  work: (context: Arguments & Context) => Promise<number>,
): Promise<never> {
  try {
    const target = parse(Deno.args, await lookAround());
    Deno.exit(await work(await openContext(target)));
  } catch (error) {
    Deno.exit(reportEnd(error, { failed: FAILED }));
  }
}

export function readTarget(
  values: Values<typeof TARGET_OPTIONS>,
  here: Surroundings,
) {
  const { env } = here;
  const provider = readProvider(values.provider);
  const settings = readSettings(env, provider);
  const { projectUrl, secrets } = readProject(values["project-url"], here);
  const apiKey = env["STRIPE_API_KEY"] ?? "";
  const stripeUrl = values["stripe-url"];

  // The API key is sent to this URL.
  if (stripeUrl !== undefined && !isLoopback(stripeUrl)) {
    throw new UsageError("--stripe-url takes a URL on this machine.");
  }

  return {
    apiKey,
    mode: readMode(apiKey, values.mode, isLoopback(projectUrl)),
    stripeUrl,
    projectUrl,
    secretKey: projectKey(projectUrl, secrets),
    provider,
    accountFrom: values["account-from"],
    ...settings,
  };
}

function readSettings(env: Surroundings["env"], provider: ProviderName) {
  try {
    const format = readFormatName(env, provider);
    if (format !== "stripe") {
      throw new Error(
        `This command is for Stripe only, but ${
          settingsPrefix(provider)
        }FORMAT is ${format}. If the other provider is Stripe, name it with --provider.`,
      );
    }
    return readEventSettings(env);
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

/** Only a test key for a local project needs no `--mode`. */
function readMode(
  apiKey: string,
  confirmed: string | undefined,
  isLocal: boolean,
): string {
  if (confirmed !== undefined) {
    oneOf(["test", "live"], { value: confirmed, what: "mode" });
  }

  const mode = /^[sr]k_(test|live)_\S+$/.exec(apiKey)?.[1];
  if (mode === undefined) {
    throw new UsageError(
      "STRIPE_API_KEY must begin with sk_test_, rk_test_, sk_live_ or rk_live_ (Stripe's dashboard, Developers, API keys).",
    );
  }

  if ((confirmed ?? (isLocal && "test")) === mode) return mode;
  const key = `STRIPE_API_KEY is a ${mode} key`;
  if (confirmed !== undefined) {
    throw new UsageError(`${key}, but ${confirmed} mode is wanted.`);
  }
  const project = isLocal
    ? "but the project is local"
    : "and the project is not local";
  throw new UsageError(
    `${key}, ${project}. If that is intended, add --mode ${mode}.`,
  );
}

/** Fails at once if the project refuses a call. */
async function openContext<Arguments extends Target>(
  target: Arguments,
): Promise<Arguments & Context> {
  const { projectUrl: supabaseUrl, secretKey } = target;
  const database = createClient({ supabaseUrl, secretKey }, { fetch });
  await openApi(target, { timeoutMs: CHECK_LIMIT_MS })
    .read("billing_health", {}).catch((error: Error) => {
      // The tables' own calls are repeated while the database has trouble.
      if (!/answered 5[0-3]/.test(error.message)) throw error;
    });

  async function wait(milliseconds: number, reason?: string) {
    if (reason !== undefined) printError(reason);
    await sleep(milliseconds);
  }
  const stripe = openStripeSource(target, wait);
  const tables = openTables({ ...target, database }, wait);
  return { ...target, stripe, tables, wait };
}
