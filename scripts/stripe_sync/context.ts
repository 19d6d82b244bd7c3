import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "../../supabase/functions/_shared/billing/database.ts";
import { asTyped } from "../common/how_started.ts";
import { isLoopback } from "../common/loopback.ts";
import { printError } from "../common/print.ts";
import { restRefusal } from "../common/rest_refusal.ts";
import type { Target } from "./arguments.ts";
import type { ProviderTables } from "./records.ts";
import { openStripeSource, type StripeSource } from "./stripe_source.ts";

/** What a command works with. */
export interface Context
  extends
    ProviderTables,
    Pick<Target, "accountFrom" | "unmappedSubscriptions" | "oncePerInvoice"> {
  readonly stripe: StripeSource;
  /** Aborted by Ctrl-C. */
  readonly signal: AbortSignal;
  /** Receives a line after each page. */
  readonly onProgress: (text: string) => void;
}

/** Longer than a project takes that is there. */
const CHECK_LIMIT_MS = 10_000;

/** Between two lines of progress. */
const PROGRESS_INTERVAL_MS = 1_000;

/**
 * Opens the Stripe account and the project that the command line names.
 *
 * @throws {Error} With what to do, if the project cannot be used.
 */
export async function openContext<Arguments extends Target>(
  target: Arguments,
  signal: AbortSignal,
): Promise<Arguments & Context> {
  async function wait(milliseconds: number, reason?: string) {
    if (reason !== undefined) printError(reason);
    await sleep(milliseconds, undefined, { signal });
  }
  let shownAtMs = performance.now();
  function onProgress(text: string) {
    if (performance.now() - shownAtMs < PROGRESS_INTERVAL_MS) return;
    shownAtMs = performance.now();
    printError(text);
  }
  const { projectUrl, secretKey } = target;
  const database = createClient({ supabaseUrl: projectUrl, secretKey }, {
    fetch,
  });
  await checkProject({ database, projectUrl, signal });
  const stripe = openStripeSource(target, wait);
  return { ...target, stripe, database, wait, onProgress, signal };
}

/** Finds out at once, without retries, if the project refuses this command. */
async function checkProject(
  { database, projectUrl, signal }:
    & Pick<Context, "database" | "signal">
    & Pick<Target, "projectUrl">,
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
  const [text, todo] = restRefusal(status, projectUrl);
  throw new Error(`Cannot use ${projectUrl}: ${text}. ${todo}.`);
}
