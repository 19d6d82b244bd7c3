import { DeliveryError } from "../../supabase/functions/_shared/billing/errors.ts";
import {
  type Environment,
  functionEnvironment,
  readEnvFile,
} from "../common/environment.ts";
import { printError } from "../common/print.ts";
import { localKeys } from "../common/keys.ts";
import { UsageError } from "../common/checked.ts";
import type { CommandSurroundings, Target } from "./arguments.ts";
import { type CommandContext, openContext } from "./command_context.ts";

const PROJECT_ADVICE =
  "Is it the project's address, the key one of its secret keys, and its database up to date (supabase db push --remote)?";

/** Not 1: what could not be looked at is no difference. */
const FAILED = 3;

/** As shells count: 128 and the number of SIGINT. */
const INTERRUPTED = 130;

/**
 * Runs a command that compares or corrects: parses its arguments, opens the
 * provider and the project, and turns what is thrown into words and an exit
 * status. The first Ctrl-C lets it finish what it is at; the second does not.
 *
 * @returns the exit status
 */
export async function runCommand<Arguments extends Target>(
  args: string[],
  { usage, parse, work }: {
    usage: string;
    parse: (
      args: string[],
      here: CommandSurroundings,
    ) => Arguments | null;
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
    if (target === null) {
      console.log(usage);
      return 0;
    }
    return await work(target, await openContext(target, signal));
  } catch (error) {
    if (signal.aborted) {
      console.error("Interrupted.");
      return INTERRUPTED;
    }
    const wrongUsage = error instanceof UsageError;
    const { message } = error as Error;
    printError(message);
    if (wrongUsage) console.error(`\n${usage}`);
    if (error instanceof DeliveryError) printError(PROJECT_ADVICE);
    return wrongUsage ? 2 : FAILED;
  } finally {
    close();
  }
}

/** The command's own; the receiver's settings come from its file as well. */
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
