/**
 * The TypeScript in the docs type-checks when it is copied.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { fileURLToPath } from "node:url";
import { createCommand } from "../../../scripts/common/create_command.ts";
import { writeDocCode } from "../../support/doc_code.ts";

const CONFIG = fileURLToPath(new URL("../../../deno.json", import.meta.url));
const DOCS = new URL("../../../docs/", import.meta.url);

Deno.test("the TypeScript in the pages type-checks", async () => {
  const pages = [...Deno.readDirSync(DOCS)]
    .map(({ name }) => name)
    .filter((name) => name.endsWith(".md"));
  await using opened = new AsyncDisposableStack();
  const files: string[] = [];
  for (const page of pages) {
    files.push(...opened.use(await writeDocCode(page)).files);
  }
  assert(files.length >= 3, `${files.length} blocks`);
  const { success, stderr } = await createCommand(Deno.execPath(), {
    args: ["check", "--quiet", "--config", CONFIG, "--frozen", ...files],
    env: { NO_COLOR: "1" },
  }).output();
  assertEquals(
    { success, said: new TextDecoder().decode(stderr) },
    { success: true, said: "" },
  );
});
