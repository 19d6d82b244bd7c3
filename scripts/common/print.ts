/**
 * Prints text that may come from outside: API answers, rows, bodies, messages of
 * errors. A terminal executes control characters, so they are escaped.
 */

/** Control and format characters, line separators and lone surrogates. */
export const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/**
 * Returns a text with such characters escaped as in JSON, `\u001b` for ESC, so that a
 * JSON document stays the same document.
 */
export function printable(text: string): string {
  const escape = (unit: string) =>
    `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return text.replace(HIDDEN, (found) => found.split("").map(escape).join(""));
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
