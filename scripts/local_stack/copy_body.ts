import type { ByteReader } from "./byte_reader.ts";
import { decodeLatin1 } from "./latin1.ts";
import { HEADER_LINE, type RequestHead } from "./request_head.ts";

type Write = (bytes: Uint8Array) => Promise<void>;

const MAX_LINE = 8_192;
const CRLF = "\r\n";
const CHUNK_LINE = /^[0-9a-f]{1,12}[ \t]*(?:;[^\r\n\0]*)?$/i;
const NO_LINE = /^$/;
const TRAILER_LINE = new RegExp(`${HEADER_LINE.source}|${NO_LINE.source}`);

/**
 * Passes the bytes of a request's body on as they are, to its end and no
 * further. Of chunks, nothing is passed on before it was found well-formed: a
 * service that takes a bare LF for the end of a line would see another end of
 * the body than this does, and a second request in what follows.
 *
 * @throws {SyntaxError} if the chunks are malformed
 * @throws if the stream ends within the body
 */
export async function copyBody(
  body: RequestHead["body"],
  from: ByteReader,
  write: Write,
): Promise<void> {
  if (body !== "chunked") return await copyBytes(body, from, write);
  // RFC 9112, section 7.1: size line, bytes, line end; a size of 0 is the
  // last, and trailers follow to an empty line.
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

/** Passes a line on, and returns it without its end. */
async function copyLine(
  from: ByteReader,
  write: Write,
  pattern: RegExp,
): Promise<string> {
  const bytes = await from.readUntil(CRLF, MAX_LINE);
  if (!bytes) throw new Error("Cannot read the body: the stream ended");
  const line = decodeLatin1(bytes).slice(0, -CRLF.length);
  if (!pattern.test(line)) {
    throw new SyntaxError("Cannot read the body: a chunk is malformed");
  }
  await write(bytes);
  return line;
}
