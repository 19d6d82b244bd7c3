import { relative } from "node:path";

/** What `deno test` prints above the tests of a file. */
const FILE = /^running \d+ tests? from (.+)$/m;

/** What it prints of a test that was neither ignored nor filtered out. */
const RAN = / \.\.\. (?:ok|FAILED) \(/;

/**
 * Returns the files and folders of which no test ran.
 *
 * @param output What `deno test` printed, without colours.
 * @param named What it was given, relative to the current folder.
 */
export function withoutTests(
  output: string,
  named: readonly string[],
): string[] {
  const [, ...parts] = output.split(FILE);
  const ran = parts.filter((_, i) => i % 2 === 0 && RAN.test(parts[i + 1]!))
    .map((file) => relative("", file));
  return named.filter((name) => {
    const path = relative("", name);
    return !ran.some((file) =>
      path === "" || file === path || file.startsWith(`${path}/`)
    );
  });
}
