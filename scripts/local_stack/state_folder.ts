import { join } from "node:path";
import { fileURLToPath } from "node:url";

const REPOSITORY = fileURLToPath(new URL("../..", import.meta.url));

const LOCK = "lock";
const OWN_NAMES = /^(binaries|cli|database|lock)(\.|$)/;

/** The places in a state folder. Nothing else in it is ours. */
export type StateFolder = {
  path: string;
  binaries: string;
  database: string;
  /** The Supabase CLI's own notes, kept out of the user's home. */
  cli: string;
  /** Gives the folder up for others to use. */
  close: () => void;
};

/**
 * Where the data is kept unless the user says otherwise: in the repository,
 * or, for root, below /var/tmp, since Postgres then runs as another account,
 * which the repository's folder may shut out.
 */
export async function defaultStateFolder(): Promise<string> {
  if (Deno.uid() !== 0) return join(REPOSITORY, ".stack");
  const path = new TextEncoder().encode(await Deno.realPath(REPOSITORY));
  const digest = await crypto.subtle.digest("SHA-256", path);
  const name = new Uint8Array(digest).toHex().slice(0, 8);
  return `/var/tmp/billing-webhook-${name}`;
}

/**
 * Opens a state folder for this process alone, making it if it is missing. The
 * lock goes with the process, however that ends.
 *
 * @throws if another stack uses it, or it is not a state folder of this account
 */
export async function openStateFolder(given: string): Promise<StateFolder> {
  await Deno.mkdir(given, { recursive: true });
  await checkOwn(given);
  // One name for one folder: leftovers are known by it.
  const path = await Deno.realPath(given);
  if (Deno.uid() === 0) await Deno.chmod(path, 0o755); // Postgres passes through it
  const lock = await Deno.open(join(path, LOCK), {
    read: true,
    write: true,
    create: true,
  });
  if (!await lock.tryLock(true)) {
    const owner = await new Response(lock.readable).text();
    throw new Error(
      `Cannot use ${path}: a stack runs on it already (process ${owner}). Stop that one or choose another folder: --data DIR`,
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
 * Makes sure that a folder is a state folder of this account, before anything
 * in it is changed. The usual one of root has a name that everybody knows, in
 * a folder where everybody may make one first, or a link to another place.
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
  // Every stack makes the lock first.
  if (!names.includes(LOCK)) refuse("it holds something else");
  const lock = await Deno.lstat(join(given, LOCK));
  if (!lock.isFile || lock.uid !== Deno.uid()) refuse("its lock is not ours");
}

/**
 * Removes what a stack has put in its folder, unfinished parts too, then the
 * folder if that is all, and gives it up.
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
