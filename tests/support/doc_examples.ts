import { assertEquals } from "@std/assert";

const DOCS = new URL("../../docs/", import.meta.url);

/** What a test got, as a page of `docs` is to show it. */
export interface DocExample {
  readonly language: "http" | "text" | "html";
  readonly text: string;
}

/**
 * Compares the blocks of these languages in a page with what a test got, in the
 * order of the page. With UPDATE_EXAMPLES=1 in the environment, it writes them
 * into the page instead.
 */
export async function checkExamples(
  page: string,
  examples: readonly DocExample[],
): Promise<void> {
  const file = new URL(page, DOCS);
  const found = await Deno.readTextFile(file);
  const languages: string[] = [];
  const expected = found.replaceAll(
    /^```(http|text|html)\n[^]*?^```$/gm,
    (block, language: string) => {
      const example = examples[languages.push(language) - 1];
      return example
        ? `\`\`\`${example.language}\n${example.text.trimEnd()}\n\`\`\``
        : block;
    },
  );
  assertEquals(languages, examples.map(({ language }) => language));
  if (Deno.env.get("UPDATE_EXAMPLES") === "1") {
    await Deno.writeTextFile(file, expected);
    return;
  }
  assertEquals(
    found.split("\n"),
    expected.split("\n"),
    `docs/${page} does not show what was sent. If what was sent is right, run ` +
      "this test with UPDATE_EXAMPLES=1.",
  );
}
