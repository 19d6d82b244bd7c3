/** Where an object of the provider may say whose it is. */
export interface Owned {
  readonly metadata?: Readonly<Record<string, string>> | null;
  readonly customer?: string | { readonly id: string } | null;
}

/**
 * The account that a subscription belongs to: `metadata.accountId`, which is
 * what the receiver goes by, else what the other source says.
 *
 * @param accountFrom A key of the metadata, or `customer` for the customer's id.
 */
export function accountOf(
  { metadata, customer }: Owned,
  accountFrom: string | undefined,
): string | undefined {
  const named = metadata?.["accountId"];
  if (named?.trim()) return named;
  if (accountFrom === undefined) return undefined;
  const other = accountFrom === "customer"
    ? typeof customer === "object" ? customer?.id : customer
    : Object.entries(metadata ?? {}).find(([key]) => key === accountFrom)?.[1];
  return other?.trim() ? other : undefined;
}
