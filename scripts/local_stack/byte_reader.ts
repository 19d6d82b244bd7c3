import { decodeLatin1 } from "./latin1.ts";

/** Reads a connection piece by piece, keeping what was read too far. */
export type ByteReader = {
  /** The bytes up to a mark and with it; nothing where the stream ends first. */
  readUntil: (
    mark: string,
    limit: number,
  ) => Promise<Uint8Array | undefined>;
  /**
   * The bytes that there are, waiting for one at least; nothing at the end.
   * They are good until the next read.
   */
  readSome: (limit: number) => Promise<Uint8Array | undefined>;
  /** Whether bytes wait that were read already. */
  hasMore: () => boolean;
};

const CHUNK = 65_536;

/** Makes a reader. It must be the only one of its connection. */
export function createByteReader(
  source: { read: (into: Uint8Array) => Promise<number | null> },
): ByteReader {
  const space = new Uint8Array(CHUNK);
  let rest: Uint8Array = space.subarray(0, 0);

  async function readMore(): Promise<Uint8Array | undefined> {
    const length = await source.read(space);
    return length === null ? undefined : space.subarray(0, length);
  }

  async function readUntil(mark: string, limit: number) {
    let text = decodeLatin1(rest);
    let end = text.indexOf(mark);
    while (end < 0) {
      if (text.length > limit) {
        throw new RangeError(`Cannot read: no end in ${limit} bytes`);
      }
      const before = rest.slice(); // the read writes over what `rest` shows
      const more = await readMore();
      if (!more) return undefined;
      rest = concatenate(before, more);
      text = decodeLatin1(rest);
      end = text.indexOf(mark);
    }
    const found = rest.slice(0, end + mark.length);
    rest = rest.subarray(found.length);
    return found;
  }

  async function readSome(limit: number) {
    if (rest.length === 0) rest = await readMore() ?? rest;
    if (rest.length === 0) return undefined;
    const some = rest.subarray(0, limit);
    rest = rest.subarray(some.length);
    return some;
  }

  return { readUntil, readSome, hasMore: () => rest.length > 0 };
}

function concatenate(a: Uint8Array, b: Uint8Array): Uint8Array {
  const both = new Uint8Array(a.length + b.length);
  both.set(a);
  both.set(b, a.length);
  return both;
}
