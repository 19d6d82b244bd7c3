import type { Comparison } from "./compare.ts";
import { comparePages, compareUnmappedAgain } from "./compare_pages.ts";
import type { Context } from "./context.ts";
import { correctRecords } from "./correct_records.ts";
import type { UnmappedDifference } from "./difference.ts";

/** How far an import has come. */
export interface ImportProgress {
  /** How many subscriptions of Stripe were compared. */
  read: number;
  /** How many had no record. */
  imported: number;
  /** How many had a record that differed. */
  corrected: number;
  /** Those without an account. */
  unmapped: UnmappedDifference[];
  /** Why others could not be recorded, by ID. */
  readonly errors: Map<string, string>;
  /** The last subscription of the last page that is done. */
  after: string | undefined;
}

/** Returns the progress of an import that has not started. */
export function noProgress(after: string | undefined): ImportProgress {
  const counts = { read: 0, imported: 0, corrected: 0 };
  return { ...counts, unmapped: [], errors: new Map(), after };
}

/** Returns how far an import has come, in one line. */
export function progressLine(
  { read, imported, corrected, unmapped, errors, after }: ImportProgress,
): string {
  const counts =
    `${read} read, ${imported} imported, ${corrected} corrected, ${unmapped.length} without an account ID, ${errors.size} failed`;
  return after === undefined ? counts : `${counts}, up to ${after}`;
}

/**
 * Imports all subscriptions, page by page, and ends between two pages if the
 * context's signal is aborted. The pages before stay imported.
 *
 * @param progress Where to begin; it is kept up to date.
 */
export async function importAll(
  progress: ImportProgress,
  context: Context,
): Promise<void> {
  const pages = context.stripe.subscriptions(progress.after);
  // The database is asked for accounts at the end: until then it does not know all
  // subscriptions of a customer, which may have different accounts.
  const options = { asksDatabase: false };
  for await (const page of comparePages(pages, context, options)) {
    await importPage(page, { progress, context });
    progress.read += page.length;
    progress.after = page.at(-1)?.subscription ?? progress.after;
    context.onProgress(progressLine(progress));
    context.signal.throwIfAborted();
  }
  for await (const page of compareUnmappedAgain(progress.unmapped, context)) {
    const ids = new Set(page.map(({ subscription }) => subscription));
    progress.unmapped = progress.unmapped.filter(({ subscription }) =>
      !ids.has(subscription)
    );
    await importPage(page, { progress, context });
    context.signal.throwIfAborted();
  }
}

async function importPage(
  page: readonly Comparison[],
  { progress, context }: { progress: ImportProgress; context: Context },
): Promise<void> {
  const errors = await correctRecords(page, context);
  for (const { subscription, difference } of page) {
    const error = difference?.kind === "unreadable"
      ? difference.error
      : errors.get(subscription);
    if (error !== undefined) progress.errors.set(subscription, error);
    else if (difference?.kind === "missing_here") progress.imported++;
    else if (difference?.kind === "differs") progress.corrected++;
    else if (difference?.kind === "unmapped") {
      progress.unmapped.push(difference);
    }
  }
}
