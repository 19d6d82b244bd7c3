import type { ByteReader } from "./byte_reader.ts";
import { decodeLatin1 } from "./latin1.ts";
import type { RequestHead } from "./request_head.ts";

type Write = (bytes: Uint8Array) => Promise<void>;

const MAX_LINE = 8_192;

/**
 * Passes the bytes of a request's body on as they are, to its end and no
 * further.
 *
 * @throws where the stream ends within the body, or the chunks are malformed
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
    const line = await copyLine(from, write);
    const [size] = /^[0-9a-f]{1,12}(?=[;\r ])/i.exec(line) ?? [];
    if (!size) throw new SyntaxError("Cannot read a chunk: it has no size");
    const length = parseInt(size, 16);
    if (length === 0) break;
    await copyBytes(length + "\r\n".length, from, write);
  }
  while (await copyLine(from, write) !== "\r\n");
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

async function copyLine(from: ByteReader, write: Write): Promise<string> {
  const line = await from.readUntil("\r\n", MAX_LINE);
  if (!line) throw new Error("Cannot read the body: the stream ended");
  await write(line);
  return decodeLatin1(line);
}
