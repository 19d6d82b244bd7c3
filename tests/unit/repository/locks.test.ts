/**
 * The lock files that `deno task locks` writes agree with `deno.lock`, which
 * everything is tested with, and with the import maps.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { stackConfig } from "../../../scripts/dev/npm_package.ts";
import { FUNCTIONS } from "../../support/imported_packages.ts";

interface LockFile {
  readonly version: string;
  readonly specifiers: Readonly<Record<string, string>>;
  readonly npm: Readonly<Record<string, { readonly integrity: string }>>;
}

const NPX = "scripts/npx/deno.lock";
const STACK = "scripts/npx/stack/deno.lock";
const BROWSER = "tests/console/deno.lock";
const OF_FUNCTIONS = FUNCTIONS.map((name) =>
  `supabase/functions/${name}/deno.lock`
);

function read(path: string): string {
  return Deno.readTextFileSync(new URL(`../../../${path}`, import.meta.url));
}

function readLock(path: string): LockFile {
  return JSON.parse(read(path));
}

/** Checksums by package and version, without the peers that were chosen. */
function checksums({ npm }: LockFile): Map<string, string> {
  return new Map(
    Object.entries(npm).map(([id, { integrity }]) => [
      /^@?[^@]+@[^_]+/.exec(id)![0],
      integrity,
    ]),
  );
}

for (const path of [...OF_FUNCTIONS, NPX, STACK]) {
  Deno.test(`${path} has the versions and the checksums of deno.lock`, () => {
    const tested = checksums(readLock("deno.lock"));
    const own = checksums(readLock(path));
    assert(own.size >= 3);
    for (const [id, checksum] of own) {
      assertEquals(checksum, tested.get(id), `${id}: run deno task locks`);
    }
  });
}

Deno.test(`${BROWSER} has the versions and the checksums of deno.lock for what both have`, () => {
  const tested = checksums(readLock("deno.lock"));
  const both = [...checksums(readLock(BROWSER))]
    .filter(([id]) => tested.has(id));
  assert(both.length >= 6);
  for (const [id, checksum] of both) {
    assertEquals(checksum, tested.get(id), `${id}: run deno task locks`);
  }
});

Deno.test("only the browser tests have a browser to download", () => {
  for (const path of ["deno.lock", ...OF_FUNCTIONS, NPX, STACK]) {
    assertEquals(/puppeteer|chromium/.test(read(path)), false, path);
  }
  assert(/puppeteer.*chromium|chromium.*puppeteer/s.test(read(BROWSER)));
});

/** The packages of an import map, as a lock names them: without their parts. */
function packagesOf(imports: Readonly<Record<string, string>>): string[] {
  return Object.values(imports)
    .filter((target) => /^npm:[^/]/.test(target))
    .map((target) => target.replace(/(@\d[^@/]*)\/.*$/, "$1"))
    .sort();
}

Deno.test(`${BROWSER} has what its import map names`, () => {
  const { imports } = JSON.parse(read("tests/console/import_map.json"));
  assertEquals(
    Object.keys(readLock(BROWSER).specifiers).sort(),
    packagesOf(imports),
  );
});

for (const path of [...OF_FUNCTIONS, STACK]) {
  Deno.test(`${path} has what its deno.json names`, () => {
    const { imports } = JSON.parse(read(path.replace(/lock$/, "json")));
    assertEquals(
      Object.keys(readLock(path).specifiers).sort(),
      packagesOf(imports),
    );
  });
}

for (const path of OF_FUNCTIONS) {
  Deno.test(`${path} has the format that the platform's Deno reads`, () => {
    assertEquals(readLock(path).version, "4");
  });
}

Deno.test(`${NPX} leaves the local stack's programs and the tests' packages out`, () => {
  const { imports } = JSON.parse(read("import_map.json"));
  const specifiers = Object.keys(readLock(NPX).specifiers);
  const left = Object.values<string>(imports)
    .filter((target) => !specifiers.includes(target));
  for (const name of ["@supabase/cli-", "embedded-", "fast-check", "pgtap"]) {
    assert(left.some((target) => target.includes(name)), name);
  }
});

Deno.test("the npm package's local stack has the versions of import_map.json", () => {
  assertEquals(read("scripts/npx/stack/deno.json"), stackConfig());
});
