import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "../../supabase/functions/_shared/billing/database.ts";
import { DeliveryError } from "../../supabase/functions/_shared/billing/errors.ts";
import { reportEnd } from "../common/cli.ts";
import { functionEnvironment, readEnvFile } from "../common/environment.ts";
import { asTyped } from "../common/how_started.ts";
import { isLoopback } from "../common/loopback.ts";
import { printError } from "../common/print.ts";
import { restRefusal } from "../common/requests.ts";
import { findRunningStack } from "../common/running_stack.ts";
import type { Surroundings } from "../common/option_values.ts";
import type { Target } from "./arguments.ts";
import type { Wait } from "./retry.ts";
import { openStripeSource, type StripeSource } from "./stripe_source.ts";
import { openTables, type Tables } from "./tables.ts";

/** What a command works with. */
export interface Context
  extends Pick<Target, "provider" | "accountFrom" | "unmappedSubscriptions"> {
  readonly stripe: StripeSource;
  readonly tables: Tables;
  readonly wait: Wait;
  /** Aborted by Ctrl-C. */
  readonly signal: AbortSignal;
  /** Receives a line after each page. */
  readonly onProgress: (text: string) => void;
}

/** Longer than a project takes that is there. */
const CHECK_LIMIT_MS = 10_000;

const PROGRESS_INTERVAL_MS = 1_000;

const PROJECT_ADVICE =
  "Check SUPABASE_URL and SUPABASE_SECRET_KEY. If the migration is missing, run: supabase db push --remote";

/** Not 1, which means that something differs. */
const FAILED = 3;

/** As in shells: 128 plus the number of SIGINT. */
const INTERRUPTED = 130;

/**
 * Runs `import` or `reconcile`, and ends the process. The first Ctrl-C lets the
 * command finish its current step; the second ends it at once.
 *
 * @param parse Reads the command line.
 * @param work Returns the exit code.
 */
export async function runCommand<Arguments extends Target>(
  parse: (args: readonly string[], here: Surroundings) => Arguments,
  work: (context: Arguments & Context) => Promise<number>,
): Promise<never> {
  const ending = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const) {
    Deno.addSignalListener(name, () => {
      if (ending.signal.aborted) Deno.exit(INTERRUPTED);
      ending.abort();
    });
  }
  try {
    const own = Deno.env.toObject();
    const env = { ...functionEnvironment(own, await readEnvFile()), ...own };
    const local = await findRunningStack(env);
    const target = parse(Deno.args, { env, warn: printError, local });
    Deno.exit(await work(await openContext(target, ending.signal)));
  } catch (error) {
    if (ending.signal.aborted) {
      printError("Interrupted.");
      Deno.exit(INTERRUPTED);
    }
    const code = reportEnd(error, { failed: FAILED });
    if (error instanceof DeliveryError) printError(PROJECT_ADVICE);
    Deno.exit(code);
  }
}

/** Finds out at once, without retries, if the project refuses this command. */
async function openContext<Arguments extends Target>(
  target: Arguments,
  signal: AbortSignal,
): Promise<Arguments & Context> {
  const { projectUrl, secretKey } = target;
  const database = createClient({ supabaseUrl: projectUrl, secretKey }, {
    fetch,
  });
  const limit = AbortSignal.timeout(CHECK_LIMIT_MS);
  const { status } = await database.from("billing_health").select("*")
    .retry(false).abortSignal(AbortSignal.any([signal, limit]));
  signal.throwIfAborted();
  if (status === 0) {
    const todo = isLoopback(projectUrl)
      ? `Start the local stack with: ${asTyped("start")}`
      : "Use a URL such as https://<project-ref>.supabase.co";
    throw new Error(`Cannot reach ${projectUrl}. ${todo}`);
  }
  if (status >= 400 && status < 500) {
    const [text, todo] = restRefusal(status, projectUrl);
    throw new Error(`Cannot use ${projectUrl}: ${text}. ${todo}.`);
  }

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
  const stripe = openStripeSource(target, wait);
  const tables = openTables({ ...target, database }, wait);
  return { ...target, stripe, tables, wait, onProgress, signal };
}
