/** Writes all of the bytes, since one write may take only a part. */
export async function writeAll(
  to: { write: (bytes: Uint8Array) => Promise<number> },
  bytes: Uint8Array,
): Promise<void> {
  for (let rest = bytes; rest.length > 0;) {
    rest = rest.subarray(await to.write(rest));
  }
}
