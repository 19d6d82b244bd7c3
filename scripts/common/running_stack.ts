/** The local stack's data folder, into which `start` writes its URLs for other commands. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import process from "node:process";
import { type Environment, isFromPackage, PROJECT } from "./environment.ts";
import { isListening, isLoopback } from "./loopback.ts";

export const RUNNING_FILE = "running.json";

export interface RunningStack {
  readonly apiUrl: string;
  readonly dbUrl: string; // for the role `postgres`
}

/**
 * For root, Postgres runs as another account, which may not be able to read the
 * repository's folder; the npm package leaves nothing in the user's project.
 */
export async function defaultStateFolder(): Promise<string> {
  if (Deno.uid() !== 0 && !isFromPackage) return join(PROJECT, ".stack");
  const hash = createHash("sha256").update(await Deno.realPath(PROJECT));
  return `/var/tmp/billing-webhook-${hash.digest("hex").slice(0, 8)}`;
}

/** Writes a stack's URLs into a file, until the result is disposed of. */
export async function publishRunningStack(
  folder: string,
  stack: RunningStack,
): Promise<AsyncDisposable> {
  const file = join(folder, RUNNING_FILE);
  // Renamed when complete, so that no command reads a part of it.
  const unfinished = `${file}.new`;
  const text = JSON.stringify({ processId: Deno.pid, ...stack });
  await Deno.writeTextFile(unfinished, `${text}\n`, { mode: 0o600 });
  await Deno.rename(unfinished, file);
  return { [Symbol.asyncDispose]: () => Deno.remove(file).catch(() => {}) };
}

/** Finds the local stack, but not what a killed one left behind. */
export async function findRunningStack(
  env: Environment,
): Promise<RunningStack | undefined> {
  const folder = env["BILLING_STACK_DATA"] || await defaultStateFolder();
  const running = await readRunning(join(folder, RUNNING_FILE));
  // The process ID may be another program's by now.
  if (!running) return undefined;
  const { port } = new URL(running.apiUrl);
  return await isListening(Number(port)) ? running : undefined;
}

/** Reads the file, if this account wrote it and the process still runs. */
async function readRunning(file: string): Promise<RunningStack | undefined> {
  try {
    if ((await Deno.lstat(file)).uid !== Deno.uid()) return undefined;
    const text = await Deno.readTextFile(file);
    const { processId, apiUrl, dbUrl } = JSON.parse(text);
    process.kill(processId, 0); // throws if it has ended, or is not a number
    const isLocal = isLoopback(apiUrl) && isLoopback(dbUrl);
    return isLocal ? { apiUrl, dbUrl } : undefined;
  } catch {
    return undefined; // no stack has written it
  }
}
