/**
 * What the gate runs.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { REPOSITORY } from "../../../scripts/common/how_started.ts";
import { allRuns, UNIT_TESTS } from "../../../scripts/dev/test/all_runs.ts";

/** Needs Debian's nginx: deno task test:nginx. */
const NOT_IN_THE_GATE = ["tests/nginx"];

const files = [UNIT_TESTS, ...allRuns("deno")].flatMap(({ files }) => files);

Deno.test("the gate runs every test", async () => {
  const found = await testsIn("tests");
  assertEquals(
    found.filter((path) =>
      ![...files, ...NOT_IN_THE_GATE].some((it) =>
        path === it || path.startsWith(`${it}/`)
      )
    ),
    [],
  );
});

Deno.test("what the gate runs is there", async () => {
  for (const path of files) await Deno.stat(join(REPOSITORY, path));
});

async function testsIn(folder: string): Promise<string[]> {
  const found: string[] = [];
  for await (const entry of Deno.readDir(join(REPOSITORY, folder))) {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory) {
      if (entry.name !== "node_modules") found.push(...await testsIn(path));
    } else if (entry.name.endsWith(".test.ts")) found.push(path);
  }
  return found;
}
