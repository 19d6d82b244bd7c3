/**
 * Who may import whom: a command its own folder, that folder `scripts/common`
 * and `scripts/events`, and all of them the deployed functions. `scripts/dev`,
 * `bench` and `tests` may import anything, and nothing imports them. No files
 * import each other in a circle.
 */
import { assert, assertEquals } from "@std/assert";
import { dirname, join } from "node:path/posix";
import { REPOSITORY } from "../../../scripts/common/how_started.ts";

const IMPORT =
  /^(?:import|export)\b[^;"'()]*?["'](\.[^"']+\.tsx?)["']|\bimport\(\s*["'](\.[^"']+\.tsx?)["']/gm;

const FUNCTIONS = "supabase/functions/";
const SHARED = `${FUNCTIONS}_shared/`;
const COMMON = ["scripts/common/", "scripts/events/", FUNCTIONS];

/** The folders of commands that are not named after their folder. */
const FOLDERS: Readonly<Record<string, readonly string[]>> = {
  start: ["local_stack", "live_view"],
  reset: ["local_stack"],
  token: ["local_stack"],
  import: ["stripe_sync"],
  reconcile: ["stripe_sync"],
};

async function readGraph(folder: string, graph = new Map<string, string[]>()) {
  for await (
    const { name, isDirectory } of Deno.readDir(join(REPOSITORY, folder))
  ) {
    const path = `${folder}/${name}`;
    if (isDirectory) await readGraph(path, graph);
    if (!/\.tsx?$/.test(name)) continue;
    const text = await Deno.readTextFile(join(REPOSITORY, path));
    const imports = text.matchAll(IMPORT)
      .map(([, plain, dynamic]) => join(dirname(path), plain ?? dynamic!));
    graph.set(path, [...imports]);
  }
  return graph;
}

function mayImport(file: string): readonly string[] {
  if (/^(scripts\/dev|bench|tests)\//.test(file)) return [""];
  const [, folder, name = ""] = /^(.*\/)([^/]+)\.tsx?$/.exec(file)!;
  if (folder!.startsWith(SHARED)) return [SHARED];
  const top = folder!.split("/").slice(0, 3).join("/");
  if (folder!.startsWith(FUNCTIONS)) return [`${top}/`, SHARED];
  if (folder === "scripts/common/") return ["scripts/common/", FUNCTIONS];
  if (folder !== "scripts/") return [folder!, ...COMMON];
  const own = (FOLDERS[name] ?? [name]).map((part) => `scripts/${part}/`);
  return [...own, ...COMMON];
}

function brokenRules(graph: ReadonlyMap<string, readonly string[]>): string[] {
  const broken = [...graph].flatMap(([file, imports]) =>
    imports.filter((path) => !mayImport(file).some((to) => path.startsWith(to)))
      .map((path) => `${file} must not import ${path}`)
  );
  const done = new Set<string>();
  function visit(file: string, path: readonly string[]) {
    const start = path.indexOf(file);
    if (start >= 0) broken.push([...path.slice(start), file].join(" -> "));
    if (start >= 0 || done.has(file)) return;
    for (const next of graph.get(file) ?? []) visit(next, [...path, file]);
    done.add(file);
  }
  for (const file of graph.keys()) visit(file, []);
  return broken;
}

Deno.test("every import of the repository keeps the rules", async () => {
  const graph = new Map<string, string[]>();
  for (const folder of ["supabase/functions", "scripts", "bench", "tests"]) {
    await readGraph(folder, graph);
  }
  assert(graph.size > 200, `only ${graph.size} modules were found`);
  assertEquals(brokenRules(graph), []);
});
