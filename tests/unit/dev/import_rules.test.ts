import { assert, assertEquals } from "@std/assert";
import { brokenImportRules } from "../../support/import_rules.ts";
import { importsOf, readImportGraph } from "../../support/import_graph.ts";

Deno.test("every import of the repository keeps the rules", async () => {
  const graph = await readImportGraph();
  assert(graph.size > 300, `only ${graph.size} modules were found`);
  assertEquals(brokenImportRules(graph), []);
});

for (
  const [file, path] of [
    ["scripts/start.ts", "scripts/doctor/examine.ts"],
    ["scripts/common/cli.ts", "scripts/local_stack/ports.ts"],
    ["scripts/doctor/checks.ts", "tests/support/send.ts"],
    ["scripts/trigger/send.ts", "scripts/dev/test.ts"],
    ["tests/deploy/deployer.ts", "tests/docs/newcomer.ts"],
    ["tests/support/send.ts", "tests/faults/operators.ts"],
    ["supabase/functions/_shared/billing/log.ts", "scripts/common/cli.ts"],
    [
      "supabase/functions/billing-worker/outbox.ts",
      "supabase/functions/billing-webhook/respond.ts",
    ],
  ] as const
) {
  Deno.test(`brokenImportRules() names ${file} if it imports ${path}`, () => {
    const [broken, ...more] = brokenImportRules(new Map([[file, [path]]]));
    assertEquals(more, []);
    assert(broken?.includes(`${file} must not import ${path}.`), broken);
  });
}

Deno.test("brokenImportRules() lets a command import its folder, and tests anything", () => {
  const graph = new Map([
    ["scripts/start.ts", ["scripts/local_stack/ports.ts"]],
    ["tests/unit/x.test.ts", ["scripts/dev/test.ts", "bench/load.ts"]],
    ["tests/deploy/x.test.ts", ["tests/deploy/a.ts", "tests/support/b.ts"]],
  ]);
  assertEquals(brokenImportRules(graph), []);
});

Deno.test("brokenImportRules() names a circle of files", () => {
  const graph = new Map([
    ["bench/a.ts", ["bench/b.ts"]],
    ["bench/b.ts", ["bench/c.ts"]],
    ["bench/c.ts", ["bench/b.ts"]],
  ]);
  const [broken, ...more] = brokenImportRules(graph);
  assertEquals(more, []);
  assert(broken?.includes("bench/b.ts -> bench/c.ts -> bench/b.ts"), broken);
});

Deno.test("brokenImportRules() asks for a rule for a new folder", () => {
  const [broken] = brokenImportRules(new Map([["scripts/new/a.ts", []]]));
  assert(broken?.startsWith("scripts/new/a.ts has no rule"), broken);
});

Deno.test("importsOf() finds imports of every form", () => {
  const text = [
    'import { a } from "./a.ts";',
    'import type { b } from "../b.ts";',
    "import {\n  c,\n  d,\n} from './c.ts';",
    'import "./e.ts";',
    'export * from "./f.ts";',
    'const g = await import("./g.ts");',
    'import zod from "zod";',
  ].join("\n");
  assertEquals(
    importsOf(text, "scripts/x/y.ts"),
    ["a", "../b", "c", "e", "f", "g"].map((name) =>
      name.startsWith("../") ? "scripts/b.ts" : `scripts/x/${name}.ts`
    ),
  );
});
