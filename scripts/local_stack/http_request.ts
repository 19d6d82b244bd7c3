import { type ByteReader, decodeLatin1 } from "./bytes.ts";

/** The head of an HTTP/1.1 request; one character is one byte. */
export interface RequestHead {
  readonly method: string;
  readonly target: string;
  readonly version: string;
  /** The header lines as received, without line ends. */
  readonly lines: readonly string[];
  /** The body's length in bytes, or "chunked". */
  readonly body: number | "chunked";
}

type Write = (bytes: Uint8Array) => Promise<void>;

const CRLF = "\r\n";
const MAX_LINE_BYTES = 8_192;
const REQUEST_LINE =
  /^([!#$%&'*+.^_`|~\w-]+) ([^\0-\x20\x7f]+) (HTTP\/1\.[01])$/;
// Of the head and of trailers (RFC 9112, section 5).
const HEADER_LINE = /^[!#$%&'*+.^_`|~\w-]+:[^\r\n\0]*$/;
const NO_LINE = /^$/;
const TRAILER_LINE = new RegExp(`${HEADER_LINE.source}|${NO_LINE.source}`);
const CHUNK_LINE = /^[0-9a-f]{1,12}[ \t]*(?:;[^\r\n\0]*)?$/i;

/**
 * Parses a request's head, strictly enough to be sure where the body ends
 * (RFC 9112, sections 3, 5.1 and 6.3). The service judges the rest.
 *
 * @param text the head with the empty line that ends it
 * @returns undefined if the head is malformed
 */
export function parseRequestHead(text: string): RequestHead | undefined {
  const [first = "", ...lines] = text.slice(0, -4).split(CRLF);
  const [, method, target, version] = REQUEST_LINE.exec(first) ?? [];
  if (!method || !target || !version) return undefined;
  if (!lines.every((line) => HEADER_LINE.test(line))) return undefined;
  const body = bodyOf(lines);
  return body === undefined
    ? undefined
    : { method, target, version, lines, body };
}

/** Returns the values of a header, one for each line that has it. */
export function headerValues(lines: readonly string[], name: string): string[] {
  const start = `${name}:`;
  return lines
    .filter((line) => line.slice(0, start.length).toLowerCase() === start)
    .map((line) => line.slice(start.length).trim());
}

function bodyOf(lines: readonly string[]): RequestHead["body"] | undefined {
  const codings = headerValues(lines, "transfer-encoding");
  const lengths = headerValues(lines, "content-length");
  if (codings.length > 0) {
    const isChunked = codings.join(",").toLowerCase() === "chunked";
    return isChunked && lengths.length === 0 ? "chunked" : undefined;
  }
  const [length = "0", ...others] = lengths;
  const isNumber = /^\d{1,15}$/.test(length);
  return isNumber && others.length === 0 ? Number(length) : undefined;
}

/**
 * Copies the bytes of a request's body unchanged, up to its end. A chunk line
 * is checked before it is copied. Otherwise a service that accepts a bare LF as
 * the end of a line would see another end of the body than this function does,
 * and would read the bytes after it as a second request.
 *
 * @throws {SyntaxError} if a chunk is malformed
 * @throws {Error} if the stream ends within the body
 */
export async function copyBody(
  body: RequestHead["body"],
  from: ByteReader,
  write: Write,
): Promise<void> {
  if (body !== "chunked") return await copyBytes(body, from, write);
  // RFC 9112, section 7.1: per chunk a size line, the bytes and a line end;
  // then a chunk of size 0, trailers and an empty line.
  for (;;) {
    const length = parseInt(await copyLine(from, write, CHUNK_LINE), 16);
    if (length === 0) break;
    await copyBytes(length, from, write);
    await copyLine(from, write, NO_LINE);
  }
  while (await copyLine(from, write, TRAILER_LINE) !== "");
}

async function copyBytes(
  length: number,
  from: ByteReader,
  write: Write,
): Promise<void> {
  for (let left = length; left > 0;) {
    const some = await from.readSome(left);
    if (!some) throw new Error("Cannot read the body: the stream ended");
    left -= some.length;
    await write(some);
  }
}

/** Copies a line, and returns it without its end. */
async function copyLine(
  from: ByteReader,
  write: Write,
  pattern: RegExp,
): Promise<string> {
  const bytes = await from.readUntil(CRLF, MAX_LINE_BYTES);
  if (!bytes) throw new Error("Cannot read the body: the stream ended");
  const line = decodeLatin1(bytes).slice(0, -CRLF.length);
  if (!pattern.test(line)) {
    throw new SyntaxError("Cannot read the body: a chunk is malformed");
  }
  await write(bytes);
  return line;
}
