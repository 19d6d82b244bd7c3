import { join } from "node:path";
import { lookUpProcess, signalTo } from "../common/processes.ts";
import { removeStalePidFile } from "./postgres.ts";
import { waitUntil } from "./wait_until.ts";

const LOCK = "lock";
const END_WITHIN_MS = 10_000;
const OUR_NAMES = /^(binaries|cli|database|lock|running)(\.|$)/;

/** A line of the lock file: a process of the stack, and when it began. */
const RECORD = /^(\d+) (.+)$/gm;

/**
 * Locks a state folder until this process ends, even if it is killed, and ends the
 * processes that a killed stack left running.
 */
export async function openStateFolder(given: string) {
  await Deno.mkdir(given, { recursive: true });
  checkFolder(given);
  const path = await Deno.realPath(given);
  if (Deno.uid() === 0) await Deno.chmod(path, 0o755); // for Postgres's account

  const { lock, text } = await takeLock(path);
  const write = (line: string) =>
    lock.write(new TextEncoder().encode(`${line}\n`));

  const database = join(path, "database");
  await endRecorded(text);
  await removeStalePidFile(database);
  await lock.truncate();
  await write(`${Deno.pid}`);

  return {
    path,
    /** The stack's paths in the folder, which may contain other files. */
    binaries: join(path, "binaries"),
    database,
    /** The Supabase CLI's own files, kept out of the user's home. */
    cli: join(path, "cli"),
    /** Records a process, so that the next stack ends it if this one is killed. */
    record: async (id: number) => {
      const started = await startOf(id);
      if (started) await write(`${id} ${started}`);
    },
    close: () => lock.close(),
    /** Removes the stack's files, unlocks the folder, and removes it if empty. */
    empty: async () => {
      const names = Array.from(Deno.readDirSync(path), ({ name }) => name);
      const ours = names.filter((name) => OUR_NAMES.test(name));
      for (const name of ours) {
        await Deno.remove(join(path, name), { recursive: true });
      }
      lock.close();
      if (ours.length === names.length) await Deno.remove(path);
    },
  };
}

/** Also returns what the last stack wrote into the lock. */
async function takeLock(path: string) {
  const file = join(path, LOCK);
  const lock = await Deno.open(file, {
    read: true,
    append: true,
    create: true,
  });
  const text = await Deno.readTextFile(file);
  if (await lock.tryLock(true)) return { lock, text };

  lock.close();
  refuse(
    path,
    `a stack already runs on it (process ${parseInt(text)}); stop it first`,
  );
}

/**
 * For root, the default folder has a predictable name below a folder that everyone can
 * write to, so someone else may have created it, or a link.
 */
function checkFolder(given: string): void {
  const { isSymlink, uid } = Deno.lstatSync(given);
  if (isSymlink) refuse(given, "it is a symbolic link");
  if (uid !== Deno.uid()) refuse(given, "another account owns it");
  const names = Array.from(Deno.readDirSync(given), ({ name }) => name);
  if (names.length === 0) return;

  // Every stack creates the lock first.
  if (!names.includes(LOCK)) refuse(given, "it contains other files");
  const lock = Deno.lstatSync(join(given, LOCK));
  if (!lock.isFile || lock.uid !== uid) {
    refuse(given, "its lock is not a file of this account");
  }
}

async function startOf(id: number): Promise<string | undefined> {
  return (await lookUpProcess(id))?.started;
}

async function endRecorded(text: string): Promise<void> {
  const records = text.matchAll(RECORD);
  await Promise.all(Array.from(records, async ([, id, started]) => {
    if (await startOf(Number(id)) === started) await endProcess(Number(id));
  }));
}

async function endProcess(id: number): Promise<void> {
  const isGone = async () => await lookUpProcess(id) === undefined;
  for (const signal of ["SIGINT", "SIGKILL"] as const) {
    signalTo(id, signal);
    if (await waitUntil(isGone, { timeoutMs: END_WITHIN_MS })) return;
  }
  throw new Error(`Cannot end process ${id}: it does not react to SIGKILL`);
}

function refuse(path: string, reason: string): never {
  throw new Error(
    `Cannot use ${path}: ${reason}. Choose another folder: --data DIR`,
  );
}
