import { setTimeout as wait } from "node:timers/promises";
import {
  createClient,
  type DatabaseClient,
} from "../../supabase/functions/_shared/billing/database.ts";
import { asTyped } from "../common/how_started.ts";
import { isLoopback } from "../common/loopback.ts";
import { printError } from "../common/print.ts";
import { restRefusal } from "../common/rest_refusal.ts";
import type { Target } from "./arguments.ts";
import type { Tables } from "./records.ts";
import { openStripeSource, type StripeSource } from "./stripe_source.ts";

/** What a command works with. */
export interface CommandContext {
  readonly stripe: StripeSource;
  readonly tables: Tables;
  /** Aborted by Ctrl-C. */
  readonly signal: AbortSignal;
  /** Waits this many milliseconds; rejects if the signal is aborted. */
  readonly sleep: (milliseconds: number) => Promise<void>;
}

/** Longer than a project takes that is there. */
const CHECK_LIMIT_MS = 10_000;

/**
 * Opens the Stripe account and the project that the command line names.
 *
 * @throws {Error} With what to do, if the project cannot be used.
 */
export async function openContext(
  target: Target,
  signal: AbortSignal,
): Promise<CommandContext> {
  function sleep(milliseconds: number): Promise<void> {
    return wait(milliseconds, undefined, { signal });
  }
  const tools = { sleep, onWait: (text: string) => printError(text) };
  const database = createClient({
    supabaseUrl: target.projectUrl,
    secretKey: target.secretKey,
  }, { fetch });
  await checkProject(database, { projectUrl: target.projectUrl, signal });
  return {
    stripe: openStripeSource(target, tools),
    tables: { database, provider: target.provider, tools },
    signal,
    sleep,
  };
}

/** Finds out at once, without retries, if the project refuses this command. */
async function checkProject(
  database: DatabaseClient,
  { projectUrl, signal }: { projectUrl: string; signal: AbortSignal },
): Promise<void> {
  const limit = AbortSignal.timeout(CHECK_LIMIT_MS);
  const { status } = await database.from("billing_health").select("*")
    .abortSignal(AbortSignal.any([signal, limit]));
  signal.throwIfAborted();
  if (status === 0) {
    const todo = isLoopback(projectUrl)
      ? `Start the local stack with: ${asTyped("start")}`
      : "Use a URL such as https://<project-ref>.supabase.co";
    throw new Error(`Cannot reach ${projectUrl}. ${todo}`);
  }
  if (status < 400 || status >= 500) return;
  const [text, todo] = restRefusal(status);
  throw new Error(`Cannot use ${projectUrl}: ${text}. ${todo}.`);
}
