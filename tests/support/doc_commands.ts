import { assertEquals } from "@std/assert";
import { fencedBlocks } from "./fenced_blocks.ts";

const ROOT = new URL("../../", import.meta.url);

/** A command that a page tells the reader to run. */
export interface DocCommand {
  /** `deploy.md:42`, where its block begins. */
  readonly place: string;
  /** In one line, without comments. */
  readonly text: string;
}

/** Returns the paths of all pages, at the root and in `docs`. */
export function pages(): string[] {
  return [".", "docs"].flatMap((folder) =>
    [...Deno.readDirSync(new URL(folder, ROOT))]
      .filter(({ name }) => name.endsWith(".md"))
      .map(({ name }) => folder === "." ? name : `${folder}/${name}`)
  ).sort();
}

/** Returns the text of a page, by its path from the root. */
export function readPage(path: string): string {
  return Deno.readTextFileSync(new URL(path, ROOT));
}

/** Returns the commands of all blocks marked `sh`, of all pages. */
export function docCommands(): DocCommand[] {
  return pages().flatMap((page) =>
    fencedBlocks(readPage(page), { page, language: "sh" })
      .flatMap(({ place, text }) =>
        commandsOf(text).map((command) => ({ place, text: command }))
      )
  );
}

/** Returns a block's commands, each in one line. */
export function commandsOf(block: string): string[] {
  return block.replaceAll(/ *\\\n */g, " ")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("#"));
}

/** Reads the blocks of commands and of SQL on a page; a test runs all of them. */
export function readBlocks(page: string) {
  const blocks = ["sh", "sql"].flatMap((language) =>
    fencedBlocks(readPage(page), { page, language }).map(({ text }) => text)
  );
  const taken = new Set<string>();
  return {
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
