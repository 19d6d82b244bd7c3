/**
 * Printing what may come from outside: API answers, rows, bodies, messages of
 * errors. A terminal obeys control characters, so none of them gets there.
 *
 * @module
 */

/**
 * Control characters of ASCII and of Latin-1 (U+009B begins an escape sequence
 * as ESC [ does), separators of lines, and what reorders or hides text.
 */
const UNPRINTABLE =
  // deno-lint-ignore no-control-regex
  /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/**
 * Returns a text with such characters written as JSON writes them, `\u001b`
 * for ESC. A line stays one line, and a JSON document stays the same document.
 */
export function printable(text: string): string {
  return text.replace(
    UNPRINTABLE,
    (character) =>
      `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Prints lines on standard output. */
export function print(...lines: readonly string[]): void {
  for (const line of lines) console.log(printable(line));
}

/** Prints lines on standard error. */
export function printError(...lines: readonly string[]): void {
  for (const line of lines) console.error(printable(line));
}
