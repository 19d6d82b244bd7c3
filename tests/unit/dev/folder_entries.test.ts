import { assertEquals } from "@std/assert";
import { pathToFileURL } from "node:url";
import { writeFolderEntries } from "../../../scripts/dev/test/folder_entries.ts";

Deno.test("writeFolderEntries() imports every test file of a folder, and nothing else", async () => {
  const root = await Deno.makeTempDir({ prefix: "billing-webhook-entries-" });
  try {
    const files = ["b/one.test.ts", "b/deep/two.test.ts", "a/three.test.ts"];
    await Deno.mkdir(`${root}/tests/b/deep`, { recursive: true });
    await Deno.mkdir(`${root}/tests/a`);
    for (const file of [...files, "b/helper.ts"]) {
      await Deno.writeTextFile(`${root}/tests/${file}`, "");
    }

    const entries = await writeFolderEntries(`${root}/tests`, root);

    const imported = (file: string) =>
      `import "${pathToFileURL(`${root}/tests/${file}`).href}";\n`;
    assertEquals(
      entries.map((entry) => [entry, Deno.readTextFileSync(entry)]),
      [
        [`${root}/a.test.ts`, imported("a/three.test.ts")],
        [
          `${root}/b.test.ts`,
          imported("b/deep/two.test.ts") + imported("b/one.test.ts"),
        ],
      ],
    );
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
