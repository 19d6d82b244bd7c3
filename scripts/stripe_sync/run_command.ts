import { DeliveryError } from "../../supabase/functions/_shared/billing/errors.ts";
import {
  type Environment,
  functionEnvironment,
  readEnvFile,
} from "../common/environment.ts";
import { printError } from "../common/print.ts";
import { findRunningStack } from "../common/running_stack.ts";
import { reportEnd } from "../common/cli.ts";
import type { Surroundings } from "../common/surroundings.ts";
import type { Target } from "./arguments.ts";
import { type Context, openContext } from "./context.ts";

const PROJECT_ADVICE =
  "Check SUPABASE_URL and SUPABASE_SECRET_KEY. If the migration is missing, run: supabase db push --remote";

/** Not 1, which means that something differs. */
const FAILED = 3;

/** As in shells: 128 plus the number of SIGINT. */
const INTERRUPTED = 130;

const INTERRUPTS = ["SIGINT", "SIGTERM"] as const;

/**
 * Runs `import` or `reconcile`: parses its arguments, opens the Stripe account
 * and the project, and reports what is thrown. The first Ctrl-C lets the
 * command finish its current step; the second ends the process.
 *
 * @returns the exit status
 */
export async function runCommand<Arguments extends Target>(
  parse: (args: readonly string[], here: Surroundings) => Arguments,
  work: (context: Arguments & Context) => Promise<number>,
): Promise<number> {
  const signal = interruption();
  try {
    const env = await commandEnvironment();
    const local = await findRunningStack(env);
    const target = parse(Deno.args, { env, warn: printError, local });
    return await work(await openContext(target, signal));
  } catch (error) {
    if (signal.aborted) {
      console.error("Interrupted.");
      return INTERRUPTED;
    }
    const code = reportEnd(error, { failed: FAILED });
    if (error instanceof DeliveryError) printError(PROJECT_ADVICE);
    return code;
  }
}

/** Returns the command's environment, completed from the receiver's `.env` file. */
async function commandEnvironment(): Promise<Environment> {
  const own = Deno.env.toObject();
  return { ...functionEnvironment(own, await readEnvFile()), ...own };
}

/** Returns a signal that the first Ctrl-C aborts; the second ends the process. */
function interruption(): AbortSignal {
  const controller = new AbortController();
  function interrupt() {
    for (const name of INTERRUPTS) Deno.removeSignalListener(name, interrupt);
    controller.abort();
  }
  for (const name of INTERRUPTS) Deno.addSignalListener(name, interrupt);
  return controller.signal;
}
