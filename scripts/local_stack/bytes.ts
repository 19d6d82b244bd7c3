import { Buffer } from "node:buffer";

/** Reads a connection piece by piece and keeps what was read too far. */
export interface ByteReader {
  /** Returns the bytes up to and including `mark`, if it comes at all. */
  readonly readUntil: (
    mark: string,
    limitBytes: number,
  ) => Promise<Uint8Array | undefined>;
  /**
   * Returns the bytes that are there, after waiting for at least one. They are
   * valid until the next read. At the end of the stream there are none.
   */
  readonly readSome: (limitBytes: number) => Promise<Uint8Array | undefined>;
}

/** How much is read from a connection at once. */
export const READ_SIZE_BYTES = 65_536;

/**
 * Decodes bytes so that each becomes one character, as in the head of an HTTP
 * message (RFC 9112, section 2.2). TextDecoder's "latin1" is windows-1252,
 * which cannot be encoded back to the same bytes.
 */
export function decodeLatin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    .toString("latin1");
}

/** Encodes what `decodeLatin1()` returns. */
export function encodeLatin1(text: string): Uint8Array {
  return Buffer.from(text, "latin1");
}

/** Writes all of the bytes: a single write may take only some of them. */
export async function writeAll(
  to: { write: (bytes: Uint8Array) => Promise<number> },
  bytes: Uint8Array,
): Promise<void> {
  for (let rest = bytes; rest.length > 0;) {
    rest = rest.subarray(await to.write(rest));
  }
}

/** Returns a reader, which must be the only one of its connection. */
export function createByteReader(
  source: { read: (into: Uint8Array) => Promise<number | null> },
): ByteReader {
  const space = new Uint8Array(READ_SIZE_BYTES);
  let rest: Uint8Array = space.subarray(0, 0);

  async function readMore(): Promise<Uint8Array | undefined> {
    const length = await source.read(space);
    return length === null ? undefined : space.subarray(0, length);
  }

  async function readUntil(mark: string, limitBytes: number) {
    let end = decodeLatin1(rest).indexOf(mark);
    while (end < 0) {
      if (rest.length > limitBytes) {
        throw new RangeError(`Cannot read: no end in ${limitBytes} bytes`);
      }
      const before = rest.slice(); // `readMore` overwrites what `rest` shows
      const more = await readMore();
      if (!more) return undefined;
      rest = Buffer.concat([before, more]);
      end = decodeLatin1(rest).indexOf(mark);
    }
    const found = rest.slice(0, end + mark.length);
    rest = rest.subarray(found.length);
    return found;
  }

  async function readSome(limitBytes: number) {
    if (rest.length === 0) rest = await readMore() ?? rest;
    if (rest.length === 0) return undefined;
    const some = rest.subarray(0, limitBytes);
    rest = rest.subarray(some.length);
    return some;
  }

  return { readUntil, readSome };
}
