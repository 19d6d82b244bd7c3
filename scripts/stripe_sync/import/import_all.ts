import { comparePages } from "../compare.ts";
import { correctRecords } from "../correct_records.ts";
import type { Tables } from "../records.ts";
import type { StripeSource } from "../stripe_source.ts";

/** How far an import has come. */
export interface ImportProgress {
  /** How many subscriptions of Stripe were compared. */
  read: number;
  /** How many had no record. */
  imported: number;
  /** How many had a record that differed. */
  corrected: number;
  /** Those without an account ID. */
  readonly unmapped: { id: string; customer: string | null }[];
  /** Those that could not be recorded, and why. */
  readonly failed: { id: string; error: string }[];
  /** The last subscription of the last page that is done. */
  after: string | undefined;
}

/** Returns the progress of an import that has not started. */
export function noProgress(after: string | undefined): ImportProgress {
  return {
    read: 0,
    imported: 0,
    corrected: 0,
    unmapped: [],
    failed: [],
    after,
  };
}

/**
 * Imports all subscriptions, page by page. If it is interrupted, the pages
 * before stay imported.
 *
 * @param progress Where to begin; it is kept up to date.
 * @param options.signal Ends the import between two pages.
 * @param options.onPage Called after each page.
 */
export async function importAll(
  progress: ImportProgress,
  { stripe, tables, accountFrom, signal, onPage }: {
    stripe: StripeSource;
    tables: Tables;
    accountFrom: string | undefined;
    signal: AbortSignal;
    onPage: () => void;
  },
): Promise<void> {
  const pages = stripe.subscriptions(progress.after);
  for await (const page of comparePages(pages, { tables, accountFrom })) {
    const failures = await correctRecords(page, tables);
    progress.read += page.length;
    for (const { subscription: id, difference } of page) {
      const error = difference?.kind === "unreadable"
        ? difference.error
        : failures.get(id);
      if (error !== undefined) progress.failed.push({ id, error });
      else if (difference?.kind === "missing_here") progress.imported++;
      else if (difference?.kind === "differs") progress.corrected++;
      else if (difference?.kind === "unmapped") {
        progress.unmapped.push({ id, customer: difference.customer });
      }
    }
    progress.after = page.at(-1)?.subscription ?? progress.after;
    onPage();
    signal.throwIfAborted();
  }
}
