import { join } from "node:path";

const LOCK = "lock";
const OWN_NAMES = /^(binaries|cli|database|lock|running)(\.|$)/;

/** The places in a state folder. Nothing else in it is ours. */
export interface StateFolder {
  readonly path: string;
  readonly binaries: string;
  readonly database: string;
  /** The Supabase CLI's own files, kept out of the user's home. */
  readonly cli: string;
  /** Unlocks the folder. */
  readonly close: () => void;
}

/**
 * Locks a state folder for this process, and creates it if it is missing. The
 * lock is released when the process ends, in whatever way.
 *
 * @throws {Error} if another stack uses it, or it is not a state folder of this
 *   account
 */
export async function openStateFolder(given: string): Promise<StateFolder> {
  await Deno.mkdir(given, { recursive: true });
  await checkOwn(given);
  // A leftover server is recognized by this name.
  const path = await Deno.realPath(given);
  if (Deno.uid() === 0) await Deno.chmod(path, 0o755); // for Postgres's account
  const lock = await Deno.open(join(path, LOCK), {
    read: true,
    write: true,
    create: true,
  });
  if (!await lock.tryLock(true)) {
    const owner = await new Response(lock.readable).text();
    throw new Error(
      `Cannot use ${path}: a stack already runs on it (process ${owner}). Stop it or choose another folder: --data DIR`,
    );
  }
  await lock.truncate();
  await lock.write(new TextEncoder().encode(`${Deno.pid}`));
  return {
    path,
    binaries: join(path, "binaries"),
    database: join(path, "database"),
    cli: join(path, "cli"),
    close: () => lock.close(),
  };
}

/**
 * Checks that a folder is a state folder of this account, before anything in it
 * is changed. For root, the default folder has a predictable name below a folder
 * that everyone can write to, so someone else may have created it, or a link.
 */
async function checkOwn(given: string): Promise<void> {
  function refuse(reason: string): never {
    throw new Error(
      `Cannot use ${given}: ${reason}. Choose another folder: --data DIR`,
    );
  }
  const { isSymlink, uid } = await Deno.lstat(given);
  if (isSymlink) refuse("it is a symbolic link");
  if (uid !== Deno.uid()) refuse("another account owns it");
  const names = Array.from(Deno.readDirSync(given), ({ name }) => name);
  if (names.length === 0) return;
  // Every stack creates the lock first.
  if (!names.includes(LOCK)) refuse("it contains other files");
  const lock = await Deno.lstat(join(given, LOCK));
  if (!lock.isFile || lock.uid !== Deno.uid()) {
    refuse("its lock is not a file of this account");
  }
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
