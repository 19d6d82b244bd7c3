import { dirname, join, normalize } from "node:path/posix";
import type { ImportGraph } from "./import_rules.ts";

const ROOT = new URL("../../", import.meta.url);
const FOLDERS = ["supabase/functions", "scripts", "bench", "tests"];
const MODULE = /\.tsx?$/;
const RELATIVE_IMPORT =
  /^(?:import|export)\b[^;"'()]*?["'](\.{1,2}\/[^"']+)["']|\bimport\(\s*["'](\.{1,2}\/[^"']+)["']/gm;

/** Reads the relative imports of every module of the repository. */
export async function readImportGraph(): Promise<ImportGraph> {
  const graph = new Map<string, string[]>();
  for (const folder of FOLDERS) {
    for await (const file of modulesBelow(folder)) {
      const text = await Deno.readTextFile(new URL(file, ROOT));
      graph.set(file, importsOf(text, file));
    }
  }
  return graph;
}

/** Returns the files that a module's text imports. */
export function importsOf(text: string, file: string): string[] {
  return [...text.matchAll(RELATIVE_IMPORT)]
    .map(([, plain, dynamic]) =>
      normalize(join(dirname(file), plain ?? dynamic ?? ""))
    )
    .filter((path) => MODULE.test(path));
}

async function* modulesBelow(folder: string): AsyncGenerator<string> {
  for await (
    const { name, isDirectory } of Deno.readDir(new URL(`${folder}/`, ROOT))
  ) {
    const path = `${folder}/${name}`;
    if (isDirectory) yield* modulesBelow(path);
    else if (MODULE.test(name)) yield path;
  }
}
