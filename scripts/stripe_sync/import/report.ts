import type { ImportProgress } from "./import_all.ts";

/** So many are named; more would bury the rest. */
const MOST_NAMED = 1_000;

/** One line on how far it has come. */
export function progressLine(
  { read, imported, corrected, unmapped, failed, after }: ImportProgress,
): string {
  const counts = [
    `${read} read`,
    `${imported} imported`,
    `${corrected} corrected`,
    `${unmapped.length} without an account`,
    `${failed.length} failed`,
  ].join(", ");
  return after === undefined ? counts : `${counts}, up to ${after}`;
}

/** What could not be recorded, and what to do about it, in lines. */
export function leftOver({ unmapped, failed }: ImportProgress): string[] {
  const parts: string[] = [];
  if (unmapped.length > 0) {
    parts.push(
      "These belong to no account and are not recorded:",
      ...named(unmapped, ({ id, customer }) => `${id} (customer ${customer})`),
      "Set metadata.accountId of each at Stripe and run this again; or say where else",
      "the account id is: --account-from <metadata key>, or --account-from customer.",
      "If they are not yours to record, see UNMAPPED_SUBSCRIPTIONS.",
    );
  }
  if (failed.length > 0) {
    parts.push(
      "These could not be recorded:",
      ...named(failed, ({ id, error }) => `${id}: ${error}`),
    );
  }
  return parts;
}

function named<Item>(
  items: readonly Item[],
  text: (item: Item) => string,
): string[] {
  const lines = items.slice(0, MOST_NAMED).map((item) => `  ${text(item)}`);
  return items.length > MOST_NAMED
    ? [...lines, `  and ${items.length - MOST_NAMED} more`]
    : lines;
}
