import {
  assertEquals,
  assertMatch,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import importMap from "../../../import_map.json" with { type: "json" };
import {
  compareVersions,
  pinnedVersion,
} from "../../../scripts/dev/check_cli.ts";

Deno.test("pinnedVersion() finds the CLI in an import map", () => {
  const others = {
    "@supabase/supabase-js": "npm:@supabase/supabase-js@2.119.0",
  };
  assertEquals(
    pinnedVersion({ ...others, supabase: "npm:supabase@2.117.0" }),
    "2.117.0",
  );
  const program = "@supabase/cli-linux-x64";
  assertEquals(
    pinnedVersion({ ...others, [program]: `npm:${program}@3.1.0` }),
    "3.1.0",
  );
  assertThrows(() => pinnedVersion(others));
});

Deno.test("pinnedVersion() finds it in this project's", () => {
  assertMatch(pinnedVersion(importMap.imports), /^\d+\.\d+\.\d+$/);
});

Deno.test("compareVersions() complains of a later major version alone", () => {
  for (
    const [pinned, latest, isBehind] of [
      ["2.117.0", "3.1.0", true],
      ["9.0.0", "10.0.0", true],
      ["3.1.0", "3.2.0", false],
      ["3.1.0", "3.1.0", false],
      ["3.1.0", "2.999.0", false],
    ] as const
  ) {
    const compared = compareVersions({ pinned, latest });
    assertEquals(compared.isBehind, isBehind, latest);
    assertStringIncludes(compared.text, pinned);
    assertStringIncludes(compared.text, latest);
  }
});

Deno.test("compareVersions() takes nothing else for a version", () => {
  for (const latest of ["", "latest", "3"]) {
    assertThrows(() => compareVersions({ pinned: "3.1.0", latest }));
  }
});
