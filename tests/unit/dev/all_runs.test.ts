import { assertEquals } from "@std/assert";
import {
  allRuns,
  UNIT_TESTS,
  WITHOUT_FUNCTIONS,
} from "../../../scripts/dev/test/all_runs.ts";
import { readImportGraph } from "../../support/import_graph.ts";

const graph = await readImportGraph();

/** What it imports, and what that imports, and so on; and itself. */
function reachedBy(file: string, reached = new Set([file])): Set<string> {
  for (const next of graph.get(file) ?? []) {
    if (!reached.has(next)) reachedBy(next, reached.add(next));
  }
  return reached;
}

Deno.test("the tests that do not run with the platform's Deno serve no function", () => {
  for (const file of WITHOUT_FUNCTIONS) {
    assertEquals(graph.has(file), true, file);
    const serving = [...reachedBy(file)].filter((reached) =>
      /\/(serve_function|function_group|start_stack)\.ts$/.test(reached)
    );
    assertEquals([file, serving], [file, []]);
  }
});

Deno.test("with the platform's Deno, every other integration test and the catalogue run", () => {
  const files = allRuns("deno").flatMap((run) =>
    run.denoPath === undefined ? [] : run.files
  );
  const expected = [...graph.keys()].filter((file) =>
    /^tests\/(integration|catalogue)\/.*\.test\.ts$/.test(file) &&
    !WITHOUT_FUNCTIONS.includes(file)
  );
  assertEquals(files.toSorted(), expected.toSorted());
});

Deno.test("every test is in a run, and nothing else is", () => {
  const paths = [UNIT_TESTS, ...allRuns("deno")].flatMap(({ files }) => files);
  const tests = [...graph.keys()].filter((file) => file.endsWith(".test.ts"));
  const isIn = (file: string, path: string) =>
    file === path || file.startsWith(`${path}/`);
  assertEquals(
    tests.filter((file) => !paths.some((path) => isIn(file, path))),
    ["tests/nginx/nginx.test.ts"], // it needs a Debian package
  );
  assertEquals(
    paths.filter((path) => !tests.some((file) => isIn(file, path))),
    [],
  );
});
