/**
 * Text from outside on a page. `html` escapes markup; this shows what the eye
 * would miss: control characters, and characters that hide or reorder text.
 *
 * @module
 */
import { type Html, html } from "./html.ts";

/** Control and format characters, line separators and lone surrogates. */
export const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u;

/** White space between values stays. */
const HIDDEN_IN_JSON = new RegExp(`(?![\\t\\n\\r])${HIDDEN.source}`, "gu");

const SPLIT = new RegExp(`(${HIDDEN.source})`, "u");

/** Returns a text with each hidden character replaced by its code, as U+202E. */
export function visible(text: string): Html {
  const parts = text.split(SPLIT);
  if (parts.length === 1) return html`<bdi>${text}</bdi>`;
  return html`<bdi>${
    parts.map((part, i) =>
      i % 2 === 0
        ? part
        : html`<span class="hidden-mark">${nameOf(part)}</span>`
    )
  }</bdi>`;
}

/** Returns the lines of a text, each as {@linkcode visible} returns it. */
export function visibleLines(text: string): Html {
  return html`${
    text.split("\n").map((line, i) =>
      html`${i === 0 ? "" : "\n"}${visible(line)}`
    )
  }`;
}

/**
 * Returns JSON text with hidden characters as JSON writes them, as \u202e. It
 * stays the same document, and is fast to show, however many there are.
 */
export function visibleJson(json: string): string {
  return json.replace(HIDDEN_IN_JSON, (characters) =>
    Array.from(
      { length: characters.length },
      (_, i) => `\\u${characters.charCodeAt(i).toString(16).padStart(4, "0")}`,
    ).join(""));
}

/** Returns a text that may be shown in a title or a message, without marks. */
export function visibleText(text: string): string {
  return text.split(SPLIT)
    .map((part, i) => i % 2 === 0 ? part : `<${nameOf(part)}>`).join("");
}

function nameOf(character: string): string {
  const hex = character.codePointAt(0)!.toString(16).toUpperCase();
  return `U+${hex.padStart(4, "0")}`;
}
