import type { ImportProgress } from "./import_all.ts";

/** More would hide the rest of the output. */
const MOST_LISTED = 1_000;

/** Returns how far an import has come, in one line. */
export function progressLine(
  { read, imported, corrected, unmapped, failed, after }: ImportProgress,
): string {
  const counts = [
    `${read} read`,
    `${imported} imported`,
    `${corrected} corrected`,
    `${unmapped.length} without an account ID`,
    `${failed.length} failed`,
  ].join(", ");
  return after === undefined ? counts : `${counts}, up to ${after}`;
}

/** Returns what was not imported, and what to do about it, in lines. */
export function notImported({ unmapped, failed }: ImportProgress): string[] {
  const parts: string[] = [];
  if (unmapped.length > 0) {
    parts.push(
      "These subscriptions have no account ID and were not imported:",
      ...listed(
        unmapped,
        ({ id, customer }) => `${id} (customer ${customer ?? "unknown"})`,
      ),
      "Set metadata.accountId of each at Stripe, and run the import again.",
      "If the account ID is elsewhere, use --account-from <metadata key> or --account-from customer.",
      "For subscriptions of another product, set UNMAPPED_SUBSCRIPTIONS=ignore (docs/reconcile.md).",
    );
  }
  if (failed.length > 0) {
    parts.push(
      "These subscriptions could not be imported:",
      ...listed(failed, ({ id, error }) => `${id}: ${error}`),
    );
  }
  return parts;
}

function listed<Item>(
  items: readonly Item[],
  text: (item: Item) => string,
): string[] {
  const lines = items.slice(0, MOST_LISTED).map((item) => `  ${text(item)}`);
  return items.length > MOST_LISTED
    ? [...lines, `  and ${items.length - MOST_LISTED} more`]
    : lines;
}
