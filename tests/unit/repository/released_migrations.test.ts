/**
 * Released migrations stay as they were.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import manifest from "../../../package.json" with { type: "json" };
import {
  readReleased,
  withRelease,
} from "../../../scripts/dev/release/released.ts";
import {
  hashesOf,
  migrationFaults,
  readMigrations,
  RELEASED_MIGRATIONS,
} from "../../../scripts/dev/release/released_migrations.ts";

const migrations = await readMigrations();
const released = await readReleased(RELEASED_MIGRATIONS);

Deno.test("no released migration was edited, renamed or deleted, and none comes before", () => {
  assertEquals(migrationFaults(migrations, released), []);
});

Deno.test("there are no hashes of a version that is yet to come", () => {
  const versions = Object.keys(released);
  assert(versions.length >= 2);
  assertEquals(
    versions.filter((version) => isNewer(version, manifest.version)),
    [],
  );
});

function isNewer(version: string, other: string): boolean {
  return version.localeCompare(other, "en", { numeric: true }) > 0;
}

const [[first, text] = ["", ""], [second] = [""]] = migrations;
const FILES = new Map([[first, text], [second, "select 1;"]]);
const LIST = withRelease({}, { version: "1.0.0", items: hashesOf(FILES) });

function hashOf(name: string, text: string): string | undefined {
  return hashesOf(new Map([[name, text]]))[name];
}

/** The only fault of these migrations. */
function faultOf(files: readonly (readonly [string, string])[]): string {
  const faults = migrationFaults(new Map(files), LIST);
  assertEquals(faults.length, 1, faults.join("\n"));
  return faults[0] ?? "";
}

Deno.test("migrationFaults() says what to do about an edited, a renamed and an early migration", () => {
  assertEquals(migrationFaults(FILES, LIST), []);
  const edited = faultOf([[first, text], [second, "select 2;"]]);
  assertStringIncludes(edited, `${second} was released with 1.0.0`);
  assertStringIncludes(edited, "edited");
  assertStringIncludes(edited, "a new migration");

  const renamed = second.replace("billing_", "billing_renamed_");
  assertStringIncludes(
    migrationFaults(new Map([[first, text], [renamed, "select 1;"]]), LIST)
      .join("\n"),
    `${second} was released with 1.0.0, and is gone`,
  );

  const early = second.replace(/^\d+/, "20200101000000");
  assertStringIncludes(
    faultOf([...FILES, [early, "select 3;"]]),
    "sorts before",
  );
  const late = second.replace(/^\d+/, "20990101000000");
  assertEquals(
    migrationFaults(new Map([...FILES, [late, "select 3;"]]), LIST),
    [],
  );
});

Deno.test("the first migration may get new names, and nothing else", () => {
  const longer = text.replace(
    "billing_health,",
    "billing_health, billing_new,",
  );
  assert(longer !== text);
  assertEquals(hashOf(first, longer), hashOf(first, text));
  assert(hashOf(first, `${text}\nselect 1;`) !== hashOf(first, text));
  // In any other migration, a list counts.
  assert(hashOf(second, longer) !== hashOf(second, text));
});

Deno.test("a release has what no other has, and can be made anew until it is published", () => {
  const third = "20990101000000_billing_9999_x.sql";
  const { [first]: old = "" } = LIST["1.0.0"] ?? {};
  const items = { [first]: old, [third]: "3" };
  const next = withRelease(LIST, { version: "1.1.0", items });
  assertEquals(next, { ...LIST, "1.1.0": { [third]: "3" } });
  const again = withRelease(next, {
    version: "1.1.0",
    items: { ...items, [third]: "4" },
  });
  assertEquals(again, { ...LIST, "1.1.0": { [third]: "4" } });
});
