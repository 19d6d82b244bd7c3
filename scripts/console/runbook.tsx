/** @jsxImportSource hono/jsx */
/**
 * What docs/runbook.md says about each error code, so that it has no second copy.
 *
 * @module
 */
import type { Child } from "hono/jsx";
import page from "../../docs/runbook.md" with { type: "text" };

/** A row of the runbook's table, as Markdown; `todo` may be empty. */
interface Advice {
  readonly means: string;
  readonly todo: string;
}

/** The advice for each error code. */
export const RUNBOOK: ReadonlyMap<string, Advice> = readAdvice();

function readAdvice(): Map<string, Advice> {
  const section = page.split(/^## Error codes$/m)[1]?.split(/^## /m)[0] ?? "";
  const advice = new Map<string, Advice>();
  for (
    const [, codes = "", cells = ""] of section.matchAll(
      /^\| *(`[^|]+`) *\| *[\d, ]+\|(.+)\|$/gm,
    )
  ) {
    const [means = "", todo = ""] = cells.split("|").map((cell) => cell.trim());
    for (const [, code = ""] of codes.matchAll(/`(\w+)`/g)) {
      advice.set(code, { means, todo });
    }
  }
  return advice;
}

/**
 * Returns a line of the runbook as markup: code, and links as their text. A link
 * to another page is followed by the page's name, since no page is served here.
 */
export function markdownLine(text: string): Child {
  return text.split(/(`[^`]+`|\[[^\]]+\]\([^)]+\))/).map((part) => {
    const code = /^`(.+)`$/.exec(part)?.[1];
    if (code !== undefined) return <code>{code}</code>;
    const [, words, target = ""] = /^\[(.+)\]\((.+)\)$/.exec(part) ?? [];
    if (words === undefined) return part;
    const page = target.replace(/#.*$/, "").replace(/^\.\.\//, "");
    if (page === "") return words;
    const isOutside = page.includes("/") || page === "SECURITY.md";
    return [words, " (", <code>{isOutside ? page : `docs/${page}`}</code>, ")"];
  });
}
