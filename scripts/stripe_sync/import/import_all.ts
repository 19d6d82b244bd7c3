import { comparePage } from "../compare_page.ts";
import { correct } from "../correct.ts";
import type { Provider } from "../open_provider.ts";
import type { Tables } from "../records.ts";

/** How far an import has come. */
export interface ImportProgress {
  /** How many subscriptions of the provider were looked at. */
  read: number;
  /** How many had no record. */
  imported: number;
  /** How many had a record that said something else. */
  corrected: number;
  /** Those that belong to no account, with the provider's customer. */
  readonly unmapped: { id: string; customer: string | undefined }[];
  /** Those that could not be recorded, and why. */
  readonly failed: { id: string; error: string }[];
  /** The last subscription of the last page that is done. */
  after: string | undefined;
}

/** The beginning of an import. */
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
 * Imports page by page; a page that is done is done, whatever comes after it.
 *
 * @param progress Where to begin; it is kept up to date.
 * @param options.signal Ends it between two pages.
 * @param options.onPage Told after each page.
 */
export async function importAll(
  progress: ImportProgress,
  { provider, tables, accountFrom, signal, onPage }: {
    provider: Provider;
    tables: Tables;
    accountFrom: string | undefined;
    signal: AbortSignal;
    onPage: () => void;
  },
): Promise<void> {
  for await (const page of provider.subscriptions(progress.after)) {
    const compared = await comparePage(page, { tables, accountFrom });
    const failures = await correct(compared, tables);
    progress.read += compared.length;
    for (const { id, comparison } of compared) {
      const error = comparison.result === "unreadable"
        ? comparison.error
        : failures.get(id);
      if (error !== undefined) progress.failed.push({ id, error });
      else if (comparison.result === "missing") progress.imported++;
      else if (comparison.result === "differs") progress.corrected++;
      else if (comparison.result === "unmapped") {
        progress.unmapped.push({ id, customer: comparison.customer });
      }
    }
    progress.after = compared.at(-1)?.id ?? progress.after;
    onPage();
    signal.throwIfAborted();
  }
}
