/**
 * Prints text that may come from outside: API answers, rows, bodies, messages of
 * errors. A terminal executes control characters, so they are escaped.
 */

/**
 * Control characters of ASCII and of Latin-1 (U+009B begins an escape sequence,
 * like ESC [), line separators, and characters that reorder or hide text.
 */
const UNPRINTABLE =
  // deno-lint-ignore no-control-regex
  /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/**
 * Returns a text with such characters escaped as in JSON, `\u001b` for ESC. A
 * line stays one line, and a JSON document stays the same document.
 */
export function printable(text: string): string {
  return text.replace(
    UNPRINTABLE,
    (character) =>
      `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

export function print(...lines: readonly string[]): void {
  for (const line of lines) console.log(printable(line));
}

export function printError(...lines: readonly string[]): void {
  for (const line of lines) console.error(printable(line));
}

export function wrap(text: string, width: number): readonly string[] {
  return text.match(new RegExp(`\\S.{0,${width - 1}}(?= |$)|\\S+`, "g")) ?? [];
}

/** Wraps a line only if it is too long, so that others keep their indentation. */
export function wrapLong(line: string, width: number): readonly string[] {
  return line.length > width ? wrap(line, width) : [line];
}
