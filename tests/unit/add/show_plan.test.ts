import { assertEquals, assertStringIncludes } from "@std/assert";
import { planLines } from "../../../scripts/add/show_plan.ts";
import { unifiedDiff } from "../../../scripts/add/unified_diff.ts";
import {
  makeProject,
  olderVersion,
  receiver,
} from "../../support/project_folder.ts";

Deno.test("planLines() fits 80 columns, and counts new files by folder", async () => {
  await using project = await makeProject();
  const lines = planLines(await project.plan());
  assertEquals(lines.filter(({ length }) => length > 80), []);
  const count = receiver.files.size;
  assertEquals(lines[0], `New: ${count} files`);
  assertEquals(lines.length < 20, true);
});

Deno.test("planLines() warns of versions that are ahead of the clock", async () => {
  const warning = "Warning: the newest of your migrations leaves too few";
  await using project = await makeProject();
  const without = planLines(await project.plan()).join("\n");
  assertEquals(without.includes(warning), false, without);
  await project.write("supabase/migrations/20261122100000_x.sql", "select 1;");
  const plan = await project.plan();
  const lines = planLines(plan);
  assertEquals(lines.filter(({ length }) => length > 80), []);
  const at = lines.findIndex((line) => line.startsWith(warning));
  assertStringIncludes(lines[at + 1] ?? "", `${plan.migrations.ahead}, in UTC`);
});

Deno.test("planLines() lists each file that is updated", async () => {
  await using project = await makeProject();
  const paths = [...receiver.files.keys()].filter((path) =>
    path.startsWith("functions/billing-worker/")
  );
  await project.add(olderVersion({
    version: "0.1.0",
    migrationsLess: 0,
    texts: Object.fromEntries(paths.map((path) => [path, "// older\n"])),
  }));
  const lines = planLines(await project.plan());
  assertEquals(
    lines.slice(0, -1),
    [
      `Updated: ${paths.length} files`,
      ...paths.sort().map((path) => `  supabase/${path}`),
    ],
  );
});

Deno.test("unifiedDiff() shows three lines around each change, as diff -u does", () => {
  const text = Array.from({ length: 20 }, (_, i) => `line ${i + 1}`).join("\n");
  const changed = text.replace("line 3\n", "").replace("line 18", "new\nlines");
  assertEquals(
    unifiedDiff({ name: "a", text }, { name: "b", text: `${changed}\n` }),
    [
      "--- a",
      "+++ b",
      "@@ -1,6 +1,5 @@",
      " line 1",
      " line 2",
      "-line 3",
      " line 4",
      " line 5",
      " line 6",
      "@@ -15,6 +14,7 @@",
      " line 15",
      " line 16",
      " line 17",
      "-line 18",
      "+new",
      "+lines",
      " line 19",
      " line 20",
    ],
  );
});
