import type Stripe from "stripe";

/** The part of a subscription that may name its account. */
type Owned = Pick<Stripe.Subscription, "metadata" | "customer">;

/**
 * Returns the account that a subscription belongs to: `metadata.accountId`, as
 * for the receiver, or else the value of the other source.
 *
 * @param accountFrom A key of the metadata, or `customer` for the customer's ID.
 */
export function accountOf(
  subscription: Owned,
  accountFrom: string | undefined,
): string | undefined {
  const metadata = new Map(Object.entries(subscription.metadata));
  const account = metadata.get("accountId");
  if (account?.trim()) return account;
  if (accountFrom === undefined) return undefined;
  const other = accountFrom === "customer"
    ? customerOf(subscription)
    : metadata.get(accountFrom);
  return other?.trim() ? other : undefined;
}

/** Returns the ID of a subscription's customer. */
export function customerOf({ customer }: Owned): string {
  return typeof customer === "string" ? customer : customer.id;
}
