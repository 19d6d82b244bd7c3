import { join } from "node:path";
import { endProcess, lookUpProcess } from "../common/processes.ts";
import { endLeftoverPostgres } from "./postgres.ts";

const LOCK = "lock";
const OWN_NAMES = /^(binaries|cli|database|lock|running)(\.|$)/;

/** A line of the lock: a process of the stack, and when it began. */
const RECORD = /^(\d+) (.+)$/gm;

/** The places in a state folder. Nothing else in it is ours. */
export interface StateFolder {
  readonly path: string;
  readonly binaries: string;
  readonly database: string;
  /** The Supabase CLI's own files, kept out of the user's home. */
  readonly cli: string;
  /** Notes a process. If this one is killed, the next stack ends it. */
  readonly record: (processId: number) => Promise<void>;
  /** Unlocks the folder. */
  readonly close: () => void;
}

/**
 * Locks a state folder for this process, and creates it if it is missing. Ends
 * what a stack that was killed has left running. The lock is released when this
 * process ends, in whatever way.
 *
 * @throws {Error} if another stack uses it, or it is not a state folder of this
 *   account
 */
export async function openStateFolder(given: string): Promise<StateFolder> {
  await Deno.mkdir(given, { recursive: true });
  checkOwn(given);
  // A leftover server is recognized by this name.
  const path = await Deno.realPath(given);
  if (Deno.uid() === 0) await Deno.chmod(path, 0o755); // for Postgres's account
  const file = join(path, LOCK);
  const lock = await Deno.open(file, {
    read: true,
    append: true,
    create: true,
  });
  const text = await Deno.readTextFile(file);
  if (!await lock.tryLock(true)) {
    lock.close();
    throw new Error(
      `Cannot use ${path}: a stack already runs on it (process ${
        parseInt(text)
      }). Stop it or choose another folder: --data DIR`,
    );
  }
  const database = join(path, "database");
  await Promise.all(Array.from(text.matchAll(RECORD), async (record) => {
    const [id, started] = [Number(record[1]), record[2]];
    if ((await lookUpProcess(id))?.started !== started) return;
    await endProcess(id, { signal: "SIGINT" });
  }));
  await endLeftoverPostgres(database);
  await lock.truncate();
  const write = (line: string) =>
    lock.write(new TextEncoder().encode(`${line}\n`));
  await write(`${Deno.pid}`);
  return {
    path,
    binaries: join(path, "binaries"),
    database,
    cli: join(path, "cli"),
    record: async (id) => {
      const started = (await lookUpProcess(id))?.started;
      if (started) await write(`${id} ${started}`);
    },
    close: () => lock.close(),
  };
}

/**
 * Checks that a folder is a state folder of this account, before anything in it
 * is changed. For root, the default folder has a predictable name below a folder
 * that everyone can write to, so someone else may have created it, or a link.
 */
function checkOwn(given: string): void {
  function refuseIf(isWrong: boolean, reason: string) {
    if (!isWrong) return;
    throw new Error(
      `Cannot use ${given}: ${reason}. Choose another folder: --data DIR`,
    );
  }
  const { isSymlink, uid } = Deno.lstatSync(given);
  refuseIf(isSymlink, "it is a symbolic link");
  refuseIf(uid !== Deno.uid(), "another account owns it");
  const names = Array.from(Deno.readDirSync(given), ({ name }) => name);
  if (names.length === 0) return;
  // Every stack creates the lock first.
  refuseIf(!names.includes(LOCK), "it contains other files");
  const lock = Deno.lstatSync(join(given, LOCK));
  refuseIf(
    !lock.isFile || lock.uid !== uid,
    "its lock is not a file of this account",
  );
}

/**
 * Removes what a stack has put in its folder, including unfinished parts, and
 * unlocks it. Removes the folder too if nothing else is in it.
 */
export async function emptyStateFolder(folder: StateFolder): Promise<void> {
  for (const { name } of Array.from(Deno.readDirSync(folder.path))) {
    if (!OWN_NAMES.test(name)) continue;
    await Deno.remove(join(folder.path, name), { recursive: true });
  }
  folder.close();
  const isEmpty = Array.from(Deno.readDirSync(folder.path)).length === 0;
  if (isEmpty) await Deno.remove(folder.path);
}
