/**
 * Who may import whom: a command its own folder, that folder `scripts/common`
 * and `scripts/events`, and all of them the deployed functions. There, settings may
 * import database, and that events. `scripts/dev`, `bench` and `tests` may import
 * anything, and nothing imports them. No files import each other in a circle.
 */
import { assert, assertEquals } from "@std/assert";
import { globSync } from "node:fs";
import { dirname, join } from "node:path/posix";
import { REPOSITORY } from "../../../scripts/common/environment.ts";

const IMPORT =
  /^(?:import|export)\b[^;"'()]*?["'](\.[^"']+\.tsx?)["']|\bimport\(\s*["'](\.[^"']+\.tsx?)["']/gm;

const FUNCTIONS = "supabase/functions/";
const SHARED = `${FUNCTIONS}_shared/billing/`;
/** Each folder may import the next ones, and the files beside them. */
const TOWER = ["settings/", "database/", "events/", "\\w+\\.ts"];
const COMMON = ["scripts/common/", "scripts/events/", FUNCTIONS];

/** The folders of commands that are not named after their folder. */
const FOLDERS: Readonly<Record<string, string>> = {
  start: "(local_stack|live_view)",
  reset: "local_stack",
  token: "local_stack",
  remove: "add",
  import: "stripe_sync",
  reconcile: "stripe_sync",
  rehearse: "(stripe_sync|doctor)",
};

function mayImport(file: string): RegExp {
  const [, folder = "", name = ""] = /^(.*\/)([^/]+)\.tsx?$/.exec(file)!;
  const any = (...starts: string[]) => new RegExp(`^(${starts.join("|")})`);
  if (/^(scripts\/dev|bench|tests)\//.test(folder)) return any("");
  if (folder.startsWith(SHARED)) {
    const floor = TOWER.indexOf(folder.slice(SHARED.length));
    return any(...TOWER.slice(floor).map((below) => SHARED + below));
  }
  const top = folder.split("/").slice(0, 3).join("/");
  if (folder.startsWith(FUNCTIONS)) return any(`${top}/`, SHARED);
  if (folder === "scripts/common/") return any(folder, FUNCTIONS);
  if (folder !== "scripts/") return any(folder, ...COMMON);
  return any(`scripts/${FOLDERS[name] ?? name}/`, ...COMMON);
}

Deno.test("every import of the repository keeps the rules", () => {
  const all = "{supabase/functions,scripts,bench,tests}/**/*.{ts,tsx}";
  const graph = new Map(
    globSync(all, { cwd: REPOSITORY }).map((file) => {
      const text = Deno.readTextFileSync(join(REPOSITORY, file));
      const paths = text.matchAll(IMPORT)
        .map(([, plain, dynamic]) => join(dirname(file), plain ?? dynamic!));
      return [file, [...paths]];
    }),
  );
  assert(graph.size > 200, `only ${graph.size} modules were found`);

  const broken = graph.entries().flatMap(([file, paths]) =>
    paths.filter((path) => !mayImport(file).test(path))
      .map((path) => `${file} must not import ${path}`)
  );
  assertEquals([...broken], []);

  // Without a circle, this takes away what imports nothing until all is gone.
  for (let before = Infinity; graph.size < before;) {
    before = graph.size;
    for (const [file, paths] of graph) {
      if (!paths.some((path) => graph.has(path))) graph.delete(file);
    }
  }
  assertEquals([...graph.keys()], [], "some of these are in a circle");
});
