/**
 * docs/dependencies.md agrees with the import maps, and with the imports.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { EDGE_DENO_VERSION } from "../../../scripts/dev/test/downloads.ts";
import { readDoc } from "../../support/sql_blocks.ts";
import {
  deployedPackages,
  FUNCTIONS,
  importedPackages,
  importsOf,
} from "../../support/imported_packages.ts";

const ROOT = new URL("../../../", import.meta.url);
const FOLDERS = ["scripts", "tests", "bench"];
const BROWSER_MAP = "tests/console/import_map.json";
const page = await readDoc("dependencies.md");

interface Row {
  readonly name: string;
  readonly version: string;
  readonly use: string;
  readonly where: readonly string[];
}

/** The table below a heading. */
function table(heading: string, text = page): Row[] {
  const [, rest = ""] = text.split(`## ${heading}\n`);
  const [section = ""] = rest.split("\n## ");
  return [...section.matchAll(/^\| `(.+?)` *\|(.+?)\|(.+)\|(.+?)\|$/gm)]
    .map(([, name = "", version = "", use = "", where = ""]) => ({
      name,
      version: version.trim(),
      use: use.trim(),
      where: where.split(",").map((word) => word.trim()),
    }));
}

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
  Deno.test(`docs/dependencies.md has each entry of ${path}, and its version`, async () => {
    const rows = table(path);
    assertEquals(
      Object.fromEntries(
        rows.map(({ name, version }) => [name, `npm:${name}@${version}`]),
      ),
      await packagesIn(path),
    );
    assertEquals(new Set(rows.map(({ name }) => name)).size, rows.length);
  });

  Deno.test(`each version in ${path} is exact`, async () => {
    for (const target of Object.values(await packagesIn(path))) {
      assert(/@\d+\.\d+\.\d+(-[\w.]+)?$/.test(target), target);
    }
  });
}

Deno.test("tests/console/import_map.json repeats import_map.json, and adds what docs/dependencies.md has", async () => {
  const all = await importMap("import_map.json");
  const own = Object.entries(await importMap(BROWSER_MAP));
  for (const [name, target] of own) {
    if (name in all) assertEquals(target, all[name], name);
    else assert(/@\d+\.\d+\.\d+$/.test(target), target);
  }
  assertEquals(
    table(BROWSER_MAP).map(({ name, version }) => [
      name,
      `npm:${name}@${version}`,
    ]),
    own.filter(([name]) => !(name in all)),
  );
});

Deno.test("docs/dependencies.md says for each what it is for, and where", () => {
  const rows = [
    ...table("import_map.json"),
    ...table("bench/peers/import_map.json"),
    ...table(BROWSER_MAP),
    ...table("Runtimes and tools"),
  ];
  for (const { name, use, where } of rows) {
    assert(use.length > 10, name);
    assert(where.length > 0, name);
    for (const place of where) {
      assert(["deployed", ...FOLDERS].includes(place), `${name}: ${place}`);
    }
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

Deno.test("docs/dependencies.md calls deployed what the functions import, and nothing else", async () => {
  const deployed = await deployedPackages();
  const names = Object.keys(await packagesIn("import_map.json"));
  assert(deployed.has("@supabase/postgrest-js"));
  assertEquals(
    table("import_map.json")
      .filter(({ where }) => where.includes("deployed"))
      .map(({ name }) => name),
    names.filter((name) => deployed.has(name)).sort(),
  );
});

Deno.test("docs/dependencies.md names each folder that imports a package", async () => {
  for (const folder of FOLDERS) {
    const imported = await importedPackages(folder);
    const listed = table("import_map.json")
      .filter(({ where }) => where.includes(folder))
      .map(({ name }) => name);
    for (const { name } of table("import_map.json")) {
      if (imported.has(name)) {
        assert(listed.includes(name), `${name}: ${folder}`);
      }
    }
  }
});

Deno.test("docs/dependencies.md has the versions of Deno that run", async () => {
  const read = (path: string) => Deno.readTextFile(new URL(path, ROOT));
  const [, deno] = /npx -y deno@(\S+) task test/.exec(await read(".ci/run"))!;
  assertEquals(
    table("Runtimes and tools").map(({ name, version }) => [name, version]),
    [["deno", deno], ["deno", EDGE_DENO_VERSION]],
  );
});
