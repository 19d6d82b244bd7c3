/**
 * Returns a text with a part appended: after an empty line, in the line ends of
 * the text, which need not end in one. What was there stays byte for byte.
 */
export function appended(text: string, part: string): string {
  const end = lineEnd(text);
  const gap = text === ""
    ? ""
    : text.endsWith(`${end}${end}`)
    ? ""
    : text.endsWith("\n")
    ? end
    : `${end}${end}`;
  return `${text}${gap}${part.replaceAll("\n", end)}`;
}

/** Returns the line end that a text uses. */
export function lineEnd(text: string): "\r\n" | "\n" {
  return text.includes("\r\n") ? "\r\n" : "\n";
}
