/**
 * Every import map has the exact versions of `import_map.json`, and every lock
 * that `deno task locks` writes the checksums of `deno.lock`, which everything is
 * tested with.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { createCommand } from "../../../scripts/common/create_command.ts";
import { REPOSITORY } from "../../../scripts/common/how_started.ts";
import { stackConfig } from "../../../scripts/dev/downloads.ts";

type Imports = Readonly<Record<string, string>>;

const FUNCTIONS = ["billing-webhook", "billing-worker"]
  .map((name) => `supabase/functions/${name}`);
const STACK = "scripts/npx/stack";
const BROWSER = "tests/console";
const NPX = "scripts/npx/deno.lock";

function read(path: string): string {
  return Deno.readTextFileSync(join(REPOSITORY, path));
}

function packagesOf(path: string): Imports {
  const { imports } = JSON.parse(read(path)) as { imports: Imports };
  return Object.fromEntries(
    Object.entries(imports).filter(([, target]) => target.startsWith("npm:")),
  );
}

function lockOf(path: string) {
  return JSON.parse(read(path)) as {
    specifiers: Imports;
    npm: Record<string, { integrity: string }>;
  };
}

/** Checksums by package and version, without the peers that were chosen. */
function checksumsOf(path: string): Imports {
  return Object.fromEntries(
    Object.entries(lockOf(path).npm).map(([id, { integrity }]) => [
      /^@?[^@]+@[^_]+/.exec(id)![0],
      integrity,
    ]),
  );
}

const MAPS = [
  "import_map.json",
  "bench/peers/import_map.json",
  `${BROWSER}/import_map.json`,
  `${STACK}/deno.json`,
  ...FUNCTIONS.map((folder) => `${folder}/deno.json`),
];

for (const path of MAPS) {
  Deno.test(`${path} has exact versions, those of import_map.json`, () => {
    const all = packagesOf("import_map.json");
    for (const [name, target] of Object.entries(packagesOf(path))) {
      assert(/@\d+\.\d+\.\d+(-[\w.]+)?(\/.*)?$/.test(target), target);
      // A part of a package has the package's version.
      const whole = all[name.split("/")[0]!]?.replace("npm:", "") ?? target;
      assert(target.includes(whole), `${name}: ${target}, ${whole}`);
      if (!path.startsWith("bench/")) {
        assertEquals(target, all[name] ?? target, name);
      }
    }
  });
}

for (
  const [lock, map] of [
    ...[...FUNCTIONS, STACK].map((
      it,
    ) => [`${it}/deno.lock`, `${it}/deno.json`]),
    [`${BROWSER}/deno.lock`, `${BROWSER}/import_map.json`],
    [NPX],
  ] as [lock: string, map?: string][]
) {
  Deno.test(`${lock} has the checksums of deno.lock, and what its import map names`, () => {
    const tested = checksumsOf("deno.lock");
    const own = Object.entries(checksumsOf(lock));
    const both = own.filter(([id]) => id in tested);
    assert(both.length >= 3);
    if (!lock.startsWith(BROWSER)) assertEquals(both.length, own.length);
    for (const [id, checksum] of both) {
      assertEquals(checksum, tested[id], `${id}: run deno task locks`);
    }
    if (!map) return;
    const named = Object.values(packagesOf(map))
      .filter((target) => !target.startsWith("npm:/"))
      .map((target) => target.replace(/(@\d[^@/]*)\/.*$/, "$1"));
    assertEquals(Object.keys(lockOf(lock).specifiers).sort(), named.sort());
  });
}

for (const folder of FUNCTIONS) {
  Deno.test(`${folder}/deno.json has what the function imports`, async () => {
    const { stdout } = await createCommand(Deno.execPath(), {
      args: [
        // Without asking the registry.
        ...["info", "--json", "--no-lock", "--no-npm"],
        ...[`--config=${folder}/deno.json`, `${folder}/index.ts`],
      ],
      cwd: REPOSITORY,
    }).output();
    const { modules } = JSON.parse(new TextDecoder().decode(stdout)) as {
      modules: { dependencies?: { specifier: string }[] }[];
    };
    const imported = modules.flatMap(({ dependencies = [] }) => dependencies)
      .map(({ specifier }) => specifier)
      .filter((specifier) => !specifier.startsWith("."));
    assertEquals(
      Object.keys(packagesOf(`${folder}/deno.json`)).sort(),
      [...new Set(imported)].sort(),
    );
  });
}

Deno.test("commands download neither the stack's programs nor a browser", () => {
  const others = /^npm:(@supabase\/cli-|embedded-|fast-check|puppeteer)/;
  const names = Object.keys(lockOf(NPX).specifiers);
  assertEquals(names.filter((name) => others.test(name)), []);
  assertEquals(read("deno.lock").includes("chromium"), false);
  assertEquals(read(`${STACK}/deno.json`), stackConfig());
});
