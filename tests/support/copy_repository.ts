import { join } from "node:path";
import { REPOSITORY } from "../../scripts/common/how_started.ts";

/** Those parts of the repository that the receiver and its tests need. */
const PARTS = [
  "LICENSE",
  "README.md",
  "deno.json",
  "deno.lock",
  "docs",
  "import_map.json",
  "package.json",
  "scripts",
  "supabase",
  "tests",
];

/** Files of a developer's own machine, which git ignores. */
const LEFT_OUT = /^\.(env|env\.local|temp|branches)$/;

/** A copy of the repository that a test can edit. */
export interface RepositoryCopy extends AsyncDisposable {
  readonly path: string;
}

/** Copies the repository as it stands; its packages are shared. */
export async function copyRepository(): Promise<RepositoryCopy> {
  const path = await Deno.makeTempDir({ prefix: "billing-webhook-copy-" });
  for (const part of PARTS) {
    await copy(join(REPOSITORY, part), join(path, part));
  }
  await Deno.symlink(`${REPOSITORY}/node_modules`, `${path}/node_modules`);
  return {
    path,
    [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }),
  };
}

async function copy(from: string, to: string): Promise<void> {
  if (!(await Deno.stat(from)).isDirectory) {
    return await Deno.copyFile(from, to);
  }
  await Deno.mkdir(to);
  for await (const { name } of Deno.readDir(from)) {
    if (!LEFT_OUT.test(name)) await copy(join(from, name), join(to, name));
  }
}
