import { compare, type Comparison } from "./corrections.ts";
import type { Page } from "./open_provider.ts";
import { recordsOf, type Tables } from "./records.ts";

/** A subscription of the provider, and how it compares with its record. */
export interface Compared {
  readonly id: string;
  readonly comparison: Comparison;
}

/** Compares a page of the provider's subscriptions with the records. */
export async function comparePage(
  { subscriptions, askedAt }: Page,
  { tables, accountFrom }: {
    tables: Tables;
    accountFrom: string | undefined;
  },
): Promise<Compared[]> {
  const records = await recordsOf(subscriptions.map(({ id }) => id), tables);
  return subscriptions.map((subscription) => ({
    id: subscription.id,
    comparison: compare(subscription, {
      record: records.get(subscription.id),
      provider: tables.provider,
      accountFrom,
      askedAt,
    }),
  }));
}
