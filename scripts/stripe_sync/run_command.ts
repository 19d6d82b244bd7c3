import { createClient } from "../../supabase/functions/_shared/billing/database.ts";
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
import { checkProject } from "./check_project.ts";
import { interruption } from "./interruption.ts";
import { openProvider, type Provider } from "./open_provider.ts";
import type { Tables } from "./records.ts";

/** What a command works with. */
export interface Workplace {
  readonly provider: Provider;
  readonly tables: Tables;
  /** Aborted by Ctrl-C. */
  readonly signal: AbortSignal;
  readonly sleep: (milliseconds: number) => Promise<void>;
}

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
    work: (target: Arguments, place: Workplace) => Promise<number>;
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
    return await work(target, await openWorkplace(target, signal));
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

async function openWorkplace(
  target: Target,
  signal: AbortSignal,
): Promise<Workplace> {
  function sleep(milliseconds: number): Promise<void> {
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const timer = setTimeout(done, milliseconds);
      signal.addEventListener("abort", done, { once: true });
      function done() {
        clearTimeout(timer);
        signal.removeEventListener("abort", done);
        if (signal.aborted) reject(signal.reason);
        else resolve();
      }
    });
  }

  const tools = { sleep, onWait: (text: string) => printError(text) };
  const database = createClient({
    supabaseUrl: target.projectUrl,
    secretKey: target.secretKey,
  }, { fetch });
  await checkProject(database, { ...target, signal });
  return {
    provider: openProvider(target, tools),
    tables: { database, provider: target.provider, tools },
    signal,
    sleep,
  };
}
