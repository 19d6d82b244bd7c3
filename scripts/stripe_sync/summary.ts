/**
 * Turns the document of `reconcile --json` into the Markdown that a workflow run
 * shows: reads standard input, writes standard output. The argument is the
 * repository's visibility.
 *
 * @module
 */
import { print } from "../common/print.ts";
import type { Difference } from "./difference.ts";
import { differenceLine } from "./report.ts";

const MOST_LISTED = 20;

if (import.meta.main) {
  const { differences } = await new Response(Deno.stdin.readable).json();
  print(...summary(differences, { visibility: Deno.args[0] }));
}

/**
 * Returns how many differences there are of each kind, and the first of them.
 * They name subscriptions, customers and accounts, and anybody can read the runs
 * of a public repository: so there only the numbers are returned.
 *
 * @param options.visibility As GitHub names it: `private`, `internal` or `public`.
 */
export function summary(
  differences: readonly Difference[],
  { visibility }: { visibility: string | undefined },
): string[] {
  const kinds = Map.groupBy(differences, ({ kind }) => kind);
  const counts = [...kinds].map(([kind, { length }]) =>
    `| \`${kind}\` | ${length} |`
  );
  const listed = differences.slice(0, MOST_LISTED).map(differenceLine);
  const more = differences.length - listed.length;
  return [
    "| Difference | Count |",
    "| --- | --- |",
    ...counts,
    "",
    ...(visibility === "private"
      // Indented text is shown as it is, whatever an ID contains.
      ? [...listed.map((line) => `    ${line}`), ""]
      : []),
    ...(visibility === "private" && more > 0 ? [`And ${more} more.`, ""] : []),
    "What each kind means, and how to fix it: docs/reconcile.md.",
  ];
}
