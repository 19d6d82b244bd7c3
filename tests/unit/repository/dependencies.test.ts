/**
 * The import maps agree with each other, and with what the functions import.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { FUNCTIONS, importsOf } from "../../support/imported_packages.ts";

const ROOT = new URL("../../../", import.meta.url);
const BROWSER_MAP = "tests/console/import_map.json";

/** The packages of an import map and their parts. The rest are files of this repository. */
async function importMap(path: string): Promise<Record<string, string>> {
  const { imports } = JSON.parse(
    await Deno.readTextFile(new URL(path, ROOT)),
  ) as { imports: Record<string, string> };
  return Object.fromEntries(
    Object.entries(imports).filter(([, target]) => !target.startsWith(".")),
  );
}

/** The packages alone. */
async function packagesIn(path: string): Promise<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(await importMap(path))
      .filter(([name, target]) => !isPart(name, target)),
  );
}

function isPart(name: string, target: string): boolean {
  return name.endsWith("/") || /@\d[^@]*\//.test(target);
}

Deno.test("the parts of a package in import_map.json have its version", async () => {
  const imports = await importMap("import_map.json");
  assertEquals(
    Object.entries(imports).filter(([name, target]) => isPart(name, target)),
    [
      ["hono/", `${imports["hono"]?.replace("npm:", "npm:/")}/`],
      ["zod/mini", `${imports["zod"]}/mini`],
    ],
  );
});

for (const path of ["import_map.json", "bench/peers/import_map.json"]) {
  Deno.test(`each version in ${path} is exact`, async () => {
    for (const target of Object.values(await packagesIn(path))) {
      assert(/@\d+\.\d+\.\d+(-[\w.]+)?$/.test(target), target);
    }
  });
}

Deno.test("tests/console/import_map.json repeats import_map.json, and adds exact versions", async () => {
  const all = await importMap("import_map.json");
  const own = Object.entries(await importMap(BROWSER_MAP));
  for (const [name, target] of own) {
    if (name in all) assertEquals(target, all[name], name);
    else assert(/@\d+\.\d+\.\d+$/.test(target), target);
  }
});

for (const name of FUNCTIONS) {
  Deno.test(`${name} has what it imports in its deno.json, as in import_map.json`, async () => {
    const all = await importMap("import_map.json");
    const own = await importMap(`supabase/functions/${name}/deno.json`);
    assertEquals(Object.keys(own).sort(), await importsOf(name));
    for (const [specifier, target] of Object.entries(own)) {
      assertEquals(target, all[specifier], specifier);
    }
  });
}
