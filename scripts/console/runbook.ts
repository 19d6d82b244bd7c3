/**
 * What docs/runbook.md says about an error code. The page is read when the
 * console starts, so that it has no second copy.
 *
 * @module
 */
const PAGE = new URL("../../docs/runbook.md", import.meta.url);

/** A row of one of the runbook's tables, as Markdown. */
export interface Advice {
  readonly means: string;
  /** Empty if `means` says it too. */
  readonly todo: string;
}

/** Reads the advice for each error code. */
export async function readRunbook(): Promise<ReadonlyMap<string, Advice>> {
  return parseRunbook(await Deno.readTextFile(PAGE));
}

/** Returns the advice for each error code in the text of the runbook. */
export function parseRunbook(page: string): ReadonlyMap<string, Advice> {
  const section = page.split(/^## Error codes$/m)[1]?.split(/^## /m)[0] ?? "";
  const rows = section.matchAll(/^\| *(`[^|]+`) *\| *[\d, ]+\|(.+)\|$/gm);
  return new Map(
    Array.from(rows, ([, codes = "", cells = ""]) => {
      const [means = "", todo = ""] = cells.split("|").map((cell) =>
        cell.trim()
      );
      return Array.from(
        codes.matchAll(/`(\w+)`/g),
        ([, code = ""]): [string, Advice] => [code, { means, todo }],
      );
    }).flat(),
  );
}
