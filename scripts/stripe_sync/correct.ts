import { applyGroups } from "./apply_groups.ts";
import type { Compared } from "./compare_page.ts";
import { forgetMarksAhead } from "./forget_marks_ahead.ts";
import type { Tables } from "./records.ts";

/**
 * Brings the records to where the provider's subscriptions were. Against marks
 * that are ahead of the clock no correction counts, so these go first.
 *
 * @returns why, for those that could not be, by id.
 */
export async function correct(
  compared: readonly Compared[],
  tables: Tables,
): Promise<Map<string, string>> {
  const wanting = compared.flatMap(({ id, comparison }) =>
    "corrections" in comparison
      ? [{ id, corrections: comparison.corrections }]
      : []
  );
  for (const { id, comparison } of compared) {
    if (comparison.result === "differs" && comparison.isFrozen) {
      await forgetMarksAhead(id, tables);
    }
  }
  const failures = await applyGroups(
    wanting.map(({ corrections }) => corrections),
    tables,
  );
  return new Map(
    wanting.flatMap(({ id }, i) => {
      const failure = failures[i];
      return failure === undefined ? [] : [[id, failure.message]];
    }),
  );
}
