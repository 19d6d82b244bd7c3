/** A fenced block of a page. */
export interface FencedBlock {
  /** `app.md:42`, where it begins. */
  readonly place: string;
  readonly text: string;
}

/**
 * Returns the fenced blocks of a language in a page. Indented blocks come
 * without their indentation.
 */
export function fencedBlocks(
  markdown: string,
  { page, language }: { page: string; language: string },
): FencedBlock[] {
  const found = markdown.matchAll(
    new RegExp(`^( *)\`\`\`${language}\\n([^]*?)^ *\`\`\`$`, "gm"),
  );
  return Array.from(found, ({ 1: indent = "", 2: text = "", index }) => ({
    place: `${page}:${markdown.slice(0, index).split("\n").length}`,
    text: text.replaceAll(new RegExp(`^${indent}`, "gm"), ""),
  }));
}
