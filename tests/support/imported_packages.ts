import { fileURLToPath } from "node:url";
import { createCommand } from "../../scripts/common/create_command.ts";

const ROOT = new URL("../../", import.meta.url);

/** The functions that are deployed. */
export const FUNCTIONS = ["billing-webhook", "billing-worker"] as const;

/** The part of `deno info --json` that is looked at. */
interface Graph {
  readonly modules: readonly {
    readonly dependencies?: readonly { readonly specifier: string }[];
  }[];
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
