/** Control and format characters, line separators and lone surrogates. */
export const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/**
 * Returns a text that may come from outside with such characters escaped, because a
 * terminal executes them: as in JSON, `\u001b` for ESC, so that a JSON document stays
 * the same document.
 */
export function printable(text: string): string {
  const escape = (unit: string) =>
    `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return text.replace(HIDDEN, (found) => found.split("").map(escape).join(""));
}

export function wrap(text: string, width: number): readonly string[] {
  return text.match(new RegExp(`\\S.{0,${width - 1}}(?= |$)|\\S+`, "g")) ?? [];
}
