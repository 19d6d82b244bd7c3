import { assertEquals } from "@std/assert";
import { reportCatalogue } from "../../../scripts/dev/test/catalogue_coverage.ts";

const ALL = Array.from({ length: 74 }, (_, i) => `catalogue ${i + 1}: input`);

function quietly<T>(run: () => T): T {
  const { log } = console;
  console.log = () => {};
  try {
    return run();
  } finally {
    console.log = log;
  }
}

Deno.test("reportCatalogue() passes when each of the 74 rows has a test", () => {
  const { passed, failed } = quietly(() => reportCatalogue(ALL));
  assertEquals([passed, failed], [1, 0]);
});

Deno.test("reportCatalogue() fails when a row has none", () => {
  for (const row of [0, 11, 62]) {
    const names = ALL.toSpliced(row, 1, "catalogue of something else");
    const { passed, failed } = quietly(() => reportCatalogue(names));
    assertEquals([passed, failed], [0, 1]);
  }
});
