import { DeliveryError } from "../../supabase/functions/_shared/billing/errors.ts";
import {
  type Environment,
  functionEnvironment,
  readEnvFile,
} from "../common/environment.ts";
import { printError } from "../common/print.ts";
import { localKeys } from "../common/keys.ts";
import { reportEnd } from "../common/cli.ts";
import type { CommandSurroundings, Target } from "./arguments.ts";
import { type CommandContext, openContext } from "./command_context.ts";

const PROJECT_ADVICE =
  "Check SUPABASE_URL and SUPABASE_SECRET_KEY. If migrations are missing, run: supabase db push --remote";

/** Not 1, which means that something differs. */
const FAILED = 3;

/** As in shells: 128 plus the number of SIGINT. */
const INTERRUPTED = 130;

/**
 * Runs `import` or `reconcile`: parses its arguments, opens the Stripe account
 * and the project, and reports what is thrown. The first Ctrl-C lets the
 * command finish its current step; the second ends the process.
 *
 * @returns the exit status
 */
export async function runCommand<Arguments extends Target>(
  args: string[],
  { parse, work }: {
    parse: (args: string[], here: CommandSurroundings) => Arguments;
    work: (target: Arguments, context: CommandContext) => Promise<number>;
  },
): Promise<number> {
  const { signal, close } = interruption();
  try {
    const target = parse(args, {
      env: await commandEnvironment(),
      localSecretKey: (await localKeys()).secret,
      warn: printError,
    });
    return await work(target, await openContext(target, signal));
  } catch (error) {
    if (signal.aborted) {
      console.error("Interrupted.");
      return INTERRUPTED;
    }
    const code = reportEnd(error, { failed: FAILED });
    if (error instanceof DeliveryError) printError(PROJECT_ADVICE);
    return code;
  } finally {
    close();
  }
}

/** Returns the command's environment, completed from the receiver's `.env` file. */
async function commandEnvironment(): Promise<Environment> {
  const own = Deno.env.toObject();
  return { ...functionEnvironment(own, await readEnvFile()), ...own };
}

/**
 * Listens for Ctrl-C once: the second one ends the process.
 *
 * @returns a signal that it aborts, and a function that stops listening
 */
function interruption(): { signal: AbortSignal; close: () => void } {
  const controller = new AbortController();
  function interrupt() {
    close();
    controller.abort();
  }
  function close() {
    Deno.removeSignalListener("SIGINT", interrupt);
    Deno.removeSignalListener("SIGTERM", interrupt);
  }
  Deno.addSignalListener("SIGINT", interrupt);
  Deno.addSignalListener("SIGTERM", interrupt);
  return { signal: controller.signal, close };
}
