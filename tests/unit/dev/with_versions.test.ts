import { assert, assertEquals } from "@std/assert";
import { UPDATED_FILES } from "../../../scripts/dev/update.ts";
import { withVersions } from "../../../scripts/dev/update/with_versions.ts";

Deno.test("withVersions() changes targets of an import map, of parts too, and no others", () => {
  const map = (hono: string, zod: string) =>
    JSON.stringify({
      "@scope/other": "npm:@scope/other@1.0.0",
      "hono": `npm:hono@${hono}`,
      "hono/": `npm:/hono@${hono}/`,
      "local": "./tests/hono@1/mod.ts",
      "zod": `npm:zod@${zod}`,
      "zod/mini": `npm:zod@${zod}/mini`,
    });
  const targets = [
    ...["npm:hono@4.2.0", "npm:/hono@3.0.0/"],
    ...["npm:zod@5.0.0-rc.1", "npm:zod@4.0.0/mini"],
  ];
  assertEquals(
    withVersions(map("4.1.0", "4.0.0"), targets),
    map("4.2.0", "5.0.0-rc.1"),
  );
});

Deno.test("withVersions() changes the rows of the list of dependencies", () => {
  const page = (version: string) =>
    `| Package | Version |\n| \`@scope/x\`    | ${version} | for \`zod\` 1.0.0 |\n| \`deno\` | 2.9.6 |\n`;
  assertEquals(
    withVersions(page("1.0.0"), ["npm:@scope/x@1.1.0"]),
    page("1.1.0"),
  );
});

Deno.test("deno task update knows each map that repeats a version of import_map.json", async () => {
  const root = new URL("../../../", import.meta.url);
  const read = async (path: string) =>
    JSON.parse(await Deno.readTextFile(new URL(path, root)));
  const { imports: all } = await read("import_map.json");
  const folders = ["bench/peers", "tests/console"];
  for (
    const { name } of Deno.readDirSync(new URL("supabase/functions", root))
  ) {
    if (name.startsWith("billing-")) folders.push(`supabase/functions/${name}`);
  }
  assert(folders.length >= 4);
  for (const folder of folders) {
    const file = folder.startsWith("supabase")
      ? "deno.json"
      : "import_map.json";
    const { imports } = await read(`${folder}/${file}`);
    assert(Object.keys(imports).some((name) => all[name] === imports[name]));
    assert(UPDATED_FILES.includes(`${folder}/${file}`), `${folder}/${file}`);
  }
});
