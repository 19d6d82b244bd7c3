import { assertEquals } from "@std/assert";
import { fencedBlocks, readPage } from "../support/docs.ts";

/** Reads the blocks of commands and of SQL on a page; a test runs all of them. */
export function readBlocks(page: string) {
  const blocks = ["sh", "sql"].flatMap((language) =>
    fencedBlocks(readPage(page), { page, language }).map(({ text }) => text)
  );
  const taken = new Set<string>();
  return {
    count: blocks.length,
    /** Returns the only block that begins with a text. */
    block: (start: string) => {
      const found = blocks.filter((text) => text.startsWith(start));
      assertEquals(found.length, 1, start);
      taken.add(found[0]!);
      return found[0]!;
    },
    /** Returns those that were not asked for. */
    left: () => blocks.filter((text) => !taken.has(text)),
  };
}
