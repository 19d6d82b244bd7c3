/**
 * Where the local stack runs. `start` writes it into the state folder, and the
 * other commands read it, so that they need no ports and keys.
 *
 * @module
 */
import { join } from "node:path";
import process from "node:process";
import { LOCAL_SECRET_KEY } from "../../supabase/functions/billing-webhook/local_stack.ts";
import { defaultStateFolder } from "./default_state_folder.ts";
import type { Environment } from "./environment.ts";
import { isListening } from "./is_listening.ts";
import { isLoopback } from "./loopback.ts";

/** The file's name in the state folder. */
export const RUNNING_FILE = "running.json";

/** A local stack that runs. */
export interface RunningStack {
  /** The gateway, which is the project's URL. */
  readonly apiUrl: string;
  readonly webhookUrl: string;
  /** The database, for the role `postgres`. */
  readonly dbUrl: string;
  /** The secret key, which is the same on every local stack. */
  readonly secretKey: string;
}

/** What the file holds. */
interface Running {
  readonly processId: number;
  readonly apiUrl: string;
  readonly dbUrl: string;
}

/**
 * Writes where a stack runs, readable by this account only, until it is disposed
 * of.
 */
export async function publishRunningStack(
  folder: string,
  { apiUrl, dbUrl }: Pick<RunningStack, "apiUrl" | "dbUrl">,
): Promise<AsyncDisposable> {
  const file = join(folder, RUNNING_FILE);
  // Renamed when complete, so that nobody reads a part of it.
  const unfinished = `${file}.new`;
  const running: Running = { processId: Deno.pid, apiUrl, dbUrl };
  await Deno.writeTextFile(unfinished, `${JSON.stringify(running)}\n`, {
    mode: 0o600,
  });
  await Deno.rename(unfinished, file);
  return {
    [Symbol.asyncDispose]: () => Deno.remove(file).catch(() => {}),
  };
}

/**
 * Finds the local stack of this clone, or of the folder in BILLING_STACK_DATA.
 *
 * @returns undefined if none runs, for example if one was killed and has left
 * its file behind
 */
export async function findRunningStack(
  env: Environment,
): Promise<RunningStack | undefined> {
  const folder = env["BILLING_STACK_DATA"] || await defaultStateFolder();
  const running = await readRunning(join(folder, RUNNING_FILE));
  if (running === undefined || !isAlive(running.processId)) return undefined;
  const { apiUrl, dbUrl } = running;
  // The process ID may be another program's by now.
  if (!await isListening(Number(new URL(apiUrl).port))) return undefined;
  return {
    apiUrl,
    webhookUrl: `${apiUrl}/functions/v1/billing-webhook`,
    dbUrl,
    secretKey: LOCAL_SECRET_KEY,
  };
}

async function readRunning(file: string): Promise<Running | undefined> {
  try {
    const { uid } = await Deno.lstat(file);
    if (uid !== Deno.uid()) return undefined;
    const { processId, apiUrl, dbUrl } = JSON.parse(
      await Deno.readTextFile(file),
    );
    const isComplete = Number.isInteger(processId) && isLoopback(apiUrl) &&
      isLoopback(dbUrl);
    return isComplete ? { processId, apiUrl, dbUrl } : undefined;
  } catch {
    return undefined; // no stack has written it
  }
}

function isAlive(processId: number): boolean {
  try {
    return process.kill(processId, 0);
  } catch {
    return false;
  }
}
