/**
 * Returns a key that is sent in a header.
 *
 * @param name What the key is called in the error.
 * @throws {Error} If the key contains a line break or a NUL character. `fetch`
 * refuses such a key too, but its error repeats the key, and errors are logged.
 * White space around the key is no fault: `fetch` removes it.
 */
export function checkKey(key: string, name: string): string {
  if (/\0|\S\s*[\r\n]\s*\S/.test(key)) {
    throw new Error(
      `${name} contains a line break or a NUL character: copy it again, as one line.`,
    );
  }
  return key;
}
