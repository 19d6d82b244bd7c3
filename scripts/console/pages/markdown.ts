import { type Html, html } from "../html.ts";

/**
 * Returns a line of the runbook as markup: code, and links as their text. A link
 * to another page is followed by the page's name, since no page is served here.
 */
export function markdownLine(text: string): Html {
  const parts = text.split(/(`[^`]+`|\[[^\]]+\]\([^)]+\))/);
  return html`${
    parts.map((part) => {
      const code = /^`(.+)`$/.exec(part)?.[1];
      if (code !== undefined) return html`<code>${code}</code>`;
      const [, words, target = ""] = /^\[(.+)\]\((.+)\)$/.exec(part) ?? [];
      if (words === undefined) return part;
      const page = target.replace(/#.*$/, "").replace(/^\.\.\//, "");
      return page === ""
        ? words
        : html`${words} (<code>${
          page.includes("/") || page === "SECURITY.md" ? page : `docs/${page}`
        }</code>)`;
    })
  }`;
}
