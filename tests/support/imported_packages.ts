import { fileURLToPath } from "node:url";
import { createCommand } from "../../scripts/common/create_command.ts";

const ROOT = new URL("../../", import.meta.url);

/** The functions that are deployed. */
export const FUNCTIONS = ["billing-webhook", "billing-worker"] as const;

/** The part of `deno info --json` that is looked at. */
interface Graph {
  readonly modules: readonly {
    readonly npmPackage?: string;
    readonly dependencies?: readonly { readonly specifier: string }[];
  }[];
  readonly npmPackages: Readonly<
    Record<string, { name: string; dependencies: readonly string[] }>
  >;
}

/** Returns the packages that the functions import, directly or not. */
export async function deployedPackages(): Promise<Set<string>> {
  const graphs = await Promise.all(FUNCTIONS.map(graphOf));
  return new Set(graphs.flatMap(packagesOf));
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

/** Returns the packages that the modules of a folder import. */
export async function importedPackages(folder: string): Promise<Set<string>> {
  const names = new Set<string>();
  for await (const text of modulesIn(new URL(`${folder}/`, ROOT))) {
    for (
      const [, name = ""] of text.matchAll(
        /(?:\bfrom |\bimport\()"((?:@[\w-]+\/)?[\w-]+)"/g,
      )
    ) names.add(name);
  }
  return names;
}

async function* modulesIn(folder: URL): AsyncGenerator<string> {
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
      ...["info", "--json", "--no-lock"],
      `--config=supabase/functions/${name}/deno.json`,
      `supabase/functions/${name}/index.ts`,
    ],
    cwd: fileURLToPath(ROOT),
  }).output();
  return JSON.parse(new TextDecoder().decode(stdout));
}

function packagesOf({ modules, npmPackages }: Graph): string[] {
  const reached = new Set<string>();
  function reach(id: string): void {
    if (reached.has(id)) return;
    reached.add(id);
    npmPackages[id]?.dependencies.forEach(reach);
  }
  for (const { npmPackage } of modules) if (npmPackage) reach(npmPackage);
  return [...reached].flatMap((id) => npmPackages[id]?.name ?? []);
}
