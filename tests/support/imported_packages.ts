import { fileURLToPath } from "node:url";
import { createCommand } from "../../scripts/common/create_command.ts";
import { RELEASED_FUNCTIONS } from "../../scripts/dev/release/released_functions.ts";

const ROOT = new URL("../../", import.meta.url);

/** The functions that are deployed. */
export const FUNCTIONS = ["billing-webhook", "billing-worker"] as const;

/** The part of `deno info --json` that is looked at. */
interface Graph {
  readonly modules: readonly {
    readonly dependencies?: readonly { readonly specifier: string }[];
  }[];
}

/**
 * Returns the packages that the functions import, directly or not: those in the
 * lock files that they are deployed with.
 */
export async function deployedPackages(): Promise<Set<string>> {
  const names = new Set<string>();
  for (const name of FUNCTIONS) {
    const url = new URL(`supabase/functions/${name}/deno.lock`, ROOT);
    const { npm } = JSON.parse(await Deno.readTextFile(url));
    for (const id of Object.keys(npm)) names.add(id.replace(/(?<=.)@.*$/, ""));
  }
  return names;
}

/** Returns what the modules of a function import, shared modules included. */
export async function importsOf(name: string): Promise<string[]> {
  const { modules } = await graphOf(name);
  const specifiers = modules
    .flatMap(({ dependencies = [] }) => dependencies)
    .map(({ specifier }) => specifier)
    .filter((specifier) => !specifier.startsWith("."));
  return [...new Set(specifiers)].sort();
}

/** They are not installed with this version's packages. */
const RELEASED = new URL(`${RELEASED_FUNCTIONS}/`, ROOT).href;

/** Returns the packages that the modules of a folder import. */
export async function importedPackages(folder: string): Promise<Set<string>> {
  const names = new Set<string>();
  for await (const text of modulesIn(new URL(`${folder}/`, ROOT))) {
    for (
      const [, name = ""] of text.matchAll(
        /(?:\bfrom |\bimport\()"((?:@[\w-]+\/)?[\w-]+)(?:\/[^"]+)?"/g,
      )
    ) names.add(name);
  }
  return names;
}

async function* modulesIn(folder: URL): AsyncGenerator<string> {
  if (folder.href === RELEASED) return;
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    if (isDirectory) yield* modulesIn(new URL(`${name}/`, folder));
    else if (name.endsWith(".ts")) {
      yield await Deno.readTextFile(new URL(name, folder));
    }
  }
}

async function graphOf(name: string): Promise<Graph> {
  const { stdout } = await createCommand(Deno.execPath(), {
    args: [
      // Without asking the registry.
      ...["info", "--json", "--no-lock", "--no-npm"],
      `--config=supabase/functions/${name}/deno.json`,
      `supabase/functions/${name}/index.ts`,
    ],
    cwd: fileURLToPath(ROOT),
  }).output();
  return JSON.parse(new TextDecoder().decode(stdout));
}
