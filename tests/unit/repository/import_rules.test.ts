import { assert, assertEquals } from "@std/assert";
import { brokenImportRules } from "../../support/import_rules.ts";
import { readImportGraph } from "../../support/import_graph.ts";

Deno.test("every import of the repository keeps the rules", async () => {
  const graph = await readImportGraph();
  assert(graph.size > 300, `only ${graph.size} modules were found`);
  assertEquals(brokenImportRules(graph), []);
});

Deno.test("brokenImportRules() names a misplaced import and a circle", () => {
  const start = "scripts/start.ts";
  const graph = new Map([
    [start, ["scripts/local_stack/ports.ts", "scripts/doctor/check.ts"]],
    ["bench/a.ts", ["bench/b.ts"]],
    ["bench/b.ts", ["bench/a.ts"]],
  ]);
  const [misplaced, circle, ...more] = brokenImportRules(graph);
  assertEquals(more, []);
  assert(misplaced?.includes("must not import scripts/doctor/check.ts"));
  assert(circle?.includes("bench/a.ts -> bench/b.ts -> bench/a.ts"), circle);
});
