import { assertEquals } from "@std/assert";
import { namedRuns } from "../../../scripts/dev/test/named_runs.ts";

const runs = (...paths: string[]) => namedRuns({ paths, filter: undefined });

Deno.test("namedRuns() needs no stack for unit tests", () => {
  for (const path of ["tests/unit", "tests/unit/functions/log.test.ts"]) {
    const { withoutStack, onStack, needsDownloads } = runs(path);
    assertEquals(withoutStack.map(({ files }) => files), [[path]]);
    assertEquals([onStack, needsDownloads], [[], false]);
  }
});

Deno.test("namedRuns() needs one for all others", () => {
  for (const path of ["", "tests", "tests/unite", "tests/pgtap.test.ts"]) {
    const { withoutStack, onStack } = runs(path);
    assertEquals(withoutStack, []);
    assertEquals(onStack[0]?.files, [path]);
  }
});

Deno.test("namedRuns() runs SQL first, each file by itself", () => {
  const { onStack } = runs(
    "tests/fuzz",
    "supabase/tests/a.test.sql",
    "supabase/tests/b.test.sql",
    "supabase/tests",
  );
  assertEquals(onStack.map(({ files, filter }) => [files, filter]), [
    [["tests/pgtap.test.ts"], "/^a\\.test\\.sql passes /"],
    [["tests/pgtap.test.ts"], "/^b\\.test\\.sql passes /"],
    [["tests/pgtap.test.ts"], undefined],
    [["tests/fuzz"], undefined],
  ]);
});

Deno.test("namedRuns() runs the browser tests with their own packages", () => {
  for (
    const [path, files, others] of [
      ["tests/console", ["tests/console"], []],
      ["tests/console/a.test.ts", ["tests/console/a.test.ts"], []],
      ["tests", ["tests/console"], [["tests"]]],
      ["", ["tests/console"], [[""]]],
      ["tests/fuzz", undefined, [["tests/fuzz"]]],
      ["tests/unit/console", undefined, []],
    ] as const
  ) {
    const { onStack, needsBrowser } = runs(path);
    const isInBrowser = (run: typeof onStack[number]) =>
      run.options?.includes("--import-map=tests/console/import_map.json");
    assertEquals(onStack.find(isInBrowser)?.files, files && [...files], path);
    const rest = onStack.filter((run) => !isInBrowser(run));
    assertEquals(rest.map((run) => run.files), others.map((one) => [...one]));
    assertEquals(needsBrowser, files !== undefined);
  }
});

Deno.test("namedRuns() hands the filter on", () => {
  const { withoutStack, onStack } = namedRuns({
    paths: ["tests/unit", "tests/fuzz"],
    filter: "x",
  });
  assertEquals([...withoutStack, ...onStack].map((run) => run.filter), [
    "x",
    "x",
  ]);
});

Deno.test("namedRuns() knows what needs downloads", () => {
  for (
    const [path, needs] of [
      ["tests/deploy", true],
      ["tests/deploy/bundle.test.ts", true],
      ["tests/recipes", true],
      ["tests", true],
      ["", true],
      ["tests/integration", false],
      ["tests/deploy_other", false],
      ["supabase/tests", false],
    ] as const
  ) assertEquals(runs(path).needsDownloads, needs, path);
});
