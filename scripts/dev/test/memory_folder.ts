import { statfs } from "node:fs/promises";

/** Where Linux keeps files in memory, if at all. */
const FOLDER = "/dev/shm";

/** The tests' files take 1.5 GiB at most, and their processes as much. */
const ROOM_BYTES = 4 * 2 ** 30;

/**
 * Returns a folder in memory for the tests' files, if there is one with enough
 * room. The tests make and delete so many that on a disk a tenth of the processor
 * time goes into that.
 *
 * @returns undefined if the files have to go to a disk
 */
export async function memoryFolder(): Promise<string | undefined> {
  if (Deno.build.os !== "linux") return undefined;
  const mounts = await Deno.readTextFile("/proc/self/mounts");
  if (!runsPrograms(mounts, FOLDER)) return undefined;
  const { bavail, bsize } = await statfs(FOLDER);
  const room = Math.min(
    Number(bavail) * Number(bsize),
    Deno.systemMemoryInfo().available - ROOM_BYTES,
  );
  return room >= ROOM_BYTES ? FOLDER : undefined;
}

/**
 * Returns whether a folder is a file system of its own from which programs may
 * run: Postgres does.
 *
 * @param mounts What /proc/self/mounts says (proc(5)).
 */
function runsPrograms(mounts: string, folder: string): boolean {
  return mounts.split("\n").some((line) => {
    const [, place, , options = ""] = line.split(" ");
    return place === folder && !options.split(",").includes("noexec");
  });
}
