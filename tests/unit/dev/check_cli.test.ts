import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { compareVersions } from "../../../scripts/dev/check_cli.ts";

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
