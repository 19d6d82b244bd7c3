import { assertEquals } from "@std/assert";
import { readPage } from "../support/doc_commands.ts";
import { fencedBlocks } from "../support/fenced_blocks.ts";

/** The blocks of commands and of SQL on a page; a test runs all of them. */
export interface PageBlocks {
  readonly count: number;
  /** Returns the only block that begins with a text. */
  block(start: string): string;
  /** Returns those that were not asked for. */
  left(): string[];
}

/** Reads a page's blocks. */
export function readBlocks(page: string): PageBlocks {
  const blocks = ["sh", "sql"].flatMap((language) =>
    fencedBlocks(readPage(page), { page, language })
  );
  const taken = new Set<string>();
  return {
    count: blocks.length,
    block: (start) => {
      const found = blocks.filter(({ text }) => text.startsWith(start));
      assertEquals(found.length, 1, start);
      taken.add(found[0]!.place);
      return found[0]!.text;
    },
    left: () =>
      blocks.filter(({ place }) => !taken.has(place)).map(({ text }) => text),
  };
}
