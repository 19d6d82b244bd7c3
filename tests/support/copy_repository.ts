import { cp } from "node:fs/promises";
import { basename } from "node:path";
import { REPOSITORY } from "../../scripts/common/environment.ts";

const PARTS = [
  "LICENSE",
  "README.md",
  "deno.json",
  "deno.lock",
  "dist",
  "docs",
  "import_map.json",
  "package.json",
  "scripts",
  "supabase",
  "tests",
];

const LEFT_OUT = /^\.(env|env\.local|temp|branches)$/;

/** Copies the repository as it stands, for a test to edit; shares its packages. */
export async function copyRepository(): Promise<
  AsyncDisposable & { readonly path: string }
> {
  const path = await Deno.makeTempDir({ prefix: "billing-webhook-copy-" });
  const filter = (source: string) => !LEFT_OUT.test(basename(source));
  for (const part of PARTS) {
    const options = { recursive: true, filter };
    await cp(`${REPOSITORY}/${part}`, `${path}/${part}`, options);
  }
  await Deno.symlink(`${REPOSITORY}/node_modules`, `${path}/node_modules`);
  const remove = () => Deno.remove(path, { recursive: true });
  return { path, [Symbol.asyncDispose]: remove };
}
