/**
 * The changelog has a dated section for each version, the newest first.
 *
 * @module
 */
import { assertEquals, assertThrows } from "@std/assert";
import manifest from "../../../package.json" with { type: "json" };
import {
  releaseNotes,
  releasesOf,
} from "../../../scripts/dev/release/changelog.ts";
import { readReleased } from "../../../scripts/dev/release/released.ts";
import { RELEASED_MIGRATIONS } from "../../../scripts/dev/release/released_migrations.ts";

const changelog = await Deno.readTextFile(
  new URL("../../../CHANGELOG.md", import.meta.url),
);

Deno.test("the changelog has every release and its date, the newest first", async () => {
  const releases = releasesOf(changelog);
  const versions = releases.map(([version]) => version);
  assertEquals(versions[0], manifest.version);
  const released = await readReleased(RELEASED_MIGRATIONS);
  assertEquals(versions.toReversed(), Object.keys(released));
  const dates = releases.map(([, date]) => date);
  assertEquals(dates, dates.toSorted().toReversed());
  assertEquals(
    dates.map((date) => new Date(date).toISOString().slice(0, 10)),
    dates,
  );
});

Deno.test("releaseNotes() returns the section of a version, and refuses one without", () => {
  const text = `# Changelog

## [Unreleased]

## [1.1.0] - 2026-12-01

### Fixed

- One thing.

## [1.0.0] - 2026-11-22

- All of it.

[1.0.0]: https://example.com
`;
  assertEquals(releaseNotes(text, "1.1.0"), "### Fixed\n\n- One thing.\n");
  assertEquals(releaseNotes(text, "1.0.0"), "- All of it.\n");
  assertThrows(
    () => releaseNotes(text, "1.2.0"),
    Error,
    "no section for 1.2.0",
  );
  assertThrows(() => releaseNotes("## [1.2.0] - \n", "1.2.0"), Error);
});
