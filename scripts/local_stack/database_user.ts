/** An account of the operating system, by its numbers. */
export type SystemUser = { uid: number; gid: number };

// Where the list of accounts does not name `nobody`, Linux's usual number.
const NOBODY = 65534;

/**
 * Who runs Postgres, which refuses to run as root: `nobody` where this process
 * is root, and nothing where it may as well run as whoever started it.
 */
export async function databaseUser(): Promise<SystemUser | undefined> {
  if (Deno.uid() !== 0) return undefined;
  const accounts = await Deno.readTextFile("/etc/passwd");
  const found = /^nobody:[^:]*:(-?\d+):(-?\d+):/m.exec(accounts);
  // macOS writes -2 for 4294967294.
  return {
    uid: Number(found?.[1] ?? NOBODY) >>> 0,
    gid: Number(found?.[2] ?? NOBODY) >>> 0,
  };
}
