/** JSON text with a line per value; perhaps only its beginning. */
export interface PrettyJson {
  readonly text: string;
  readonly isCut: boolean;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
/** Deeper values are not indented any further: the text would grow squared. */
const MAX_INDENT = 24;

/**
 * Formats JSON text with two spaces per level. It moves the text itself, so that
 * no number is rounded and no duplicate key is lost.
 *
 * @param json Valid JSON.
 * @param options.maxLength Stops after this many characters.
 */
export function prettyJson(
  json: string,
  { maxLength = Infinity }: { maxLength?: number } = {},
): PrettyJson {
  let text = "";
  let depth = 0;
  let i = skipSpace(json, 0);
  while (i < json.length && text.length <= maxLength) {
    const end = endOfToken(json, i);
    const token = json.slice(i, end);
    i = skipSpace(json, end);
    if (token === "{" || token === "[") {
      const isEmpty = json[i] === (token === "{" ? "}" : "]");
      if (isEmpty) {
        text += token + json[i];
        i = skipSpace(json, i + 1);
      } else text += token + lineBreak(++depth);
    } else if (token === "}" || token === "]") {
      text += lineBreak(--depth) + token;
    } else if (token === ",") text += token + lineBreak(depth);
    else if (token === ":") text += ": ";
    else text += token.trim();
  }
  const isCut = i < json.length || text.length > maxLength;
  return { text: isCut ? text.slice(0, maxLength) : text, isCut };
}

function lineBreak(depth: number): string {
  return `\n${"  ".repeat(Math.min(depth, MAX_INDENT))}`;
}

function endOfToken(json: string, start: number): number {
  if (json.charCodeAt(start) === QUOTE) return endOfString(json, start);
  if ("{}[],:".includes(json[start]!)) return start + 1;
  let end = start + 1;
  while (end < json.length && !'{}[],:"'.includes(json[end]!)) end++;
  return end;
}

function endOfString(json: string, start: number): number {
  let i = start + 1;
  while (i < json.length) {
    const code = json.charCodeAt(i);
    if (code === QUOTE) return i + 1;
    i += code === BACKSLASH ? 2 : 1;
  }
  return json.length;
}

function skipSpace(json: string, start: number): number {
  let i = start;
  while (i < json.length && " \t\r\n".includes(json[i]!)) i++;
  return i;
}
