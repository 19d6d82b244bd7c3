import { accountOf, customerOf } from "./account_of.ts";
import { compare, type Comparison } from "./compare.ts";
import type { Context } from "./context.ts";
import type { Difference } from "./difference.ts";
import { accountsOfCustomers, recordsOf } from "./records.ts";
import type { Page } from "./stripe_source.ts";

/**
 * Compares pages of subscriptions with the records, page by page.
 *
 * @param options.only Leaves out all other subscriptions.
 * @param options.asksDatabase Whether `billing.account_of_customer` is asked for those
 * that do not name their account.
 */
export async function* comparePages(
  pages: AsyncIterable<Page>,
  context: Context,
  { only, asksDatabase = true }: {
    only?: ReadonlySet<string> | undefined;
    asksDatabase?: boolean;
  } = {},
): AsyncGenerator<Comparison[]> {
  for await (const { data, askedAtSeconds } of pages) {
    const chosen = data.filter(({ id }) => only?.has(id) ?? true);
    const records = await recordsOf(chosen.map(({ id }) => id), context);
    const unnamed = chosen.filter((subscription) =>
      !records.has(subscription.id) &&
      accountOf(subscription, context.accountFrom) === undefined
    );
    const accounts = await accountsOfCustomers(
      asksDatabase ? unnamed.map(customerOf) : [],
      context,
    );
    yield chosen.map((subscription) =>
      compare(subscription, {
        ...context,
        record: records.get(subscription.id),
        customersAccount: accounts.get(customerOf(subscription)),
        askedAtSeconds,
      })
    );
  }
}

/**
 * Compares those subscriptions without an account again of whose customer the
 * account is known by now: from another one that was recorded meanwhile.
 */
export async function* compareUnmappedAgain(
  differences: readonly (Difference | undefined)[],
  context: Context,
): AsyncGenerator<Comparison[]> {
  const unmapped = differences.filter((difference) =>
    difference?.kind === "unmapped"
  );
  const accounts = await accountsOfCustomers(
    unmapped.map(({ customer }) => customer),
    context,
  );
  const ids = unmapped.filter(({ customer }) => accounts.has(customer))
    .map(({ subscription }) => subscription);
  yield* comparePages(context.stripe.someSubscriptions(ids), context);
}
