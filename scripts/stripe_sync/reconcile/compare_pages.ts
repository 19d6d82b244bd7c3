import { type Compared, comparePage } from "../compare_page.ts";
import type { Page } from "../open_provider.ts";
import type { Scope } from "./scope.ts";

/** What came of comparing pages of the provider's subscriptions. */
export interface ComparedPages {
  /** All that were compared. */
  readonly ids: ReadonlySet<string>;
  readonly different: readonly Compared[];
  readonly pages: number;
}

/**
 * Compares page by page.
 *
 * @param options.only Leaves the others alone.
 */
export async function comparePages(
  source: AsyncIterable<Page>,
  { scope, only }: { scope: Scope; only?: ReadonlySet<string> },
): Promise<ComparedPages> {
  const ids = new Set<string>();
  const different: Compared[] = [];
  let pages = 0;
  for await (const { subscriptions, askedAt } of source) {
    const page = {
      subscriptions: subscriptions.filter(({ id }) => only?.has(id) ?? true),
      askedAt,
    };
    for (const each of await comparePage(page, scope)) {
      ids.add(each.id);
      if (each.comparison.result !== "same") different.push(each);
    }
    pages++;
    scope.onPage(ids.size);
    scope.signal.throwIfAborted();
  }
  return { ids, different, pages };
}
