import type Stripe from "stripe";
import type { BillingEvent } from "../../supabase/functions/_shared/billing/apply_events.ts";
import { DeliveryError } from "../../supabase/functions/_shared/billing/errors.ts";
import type { Context } from "./context.ts";
import { correctionEvent } from "./correction_event.ts";
import {
  type Difference,
  fieldDifferences,
  type FieldValue,
  type SubscriptionDifference,
} from "./difference.ts";
import {
  accountsOfCustomers,
  recordsOf,
  type SubscriptionRecord,
} from "./records.ts";
import type { Page } from "./stripe_source.ts";

/** The part of a subscription that may name its account. */
type Owned = Pick<Stripe.Subscription, "metadata" | "customer">;

/** One subscription at Stripe beside its record. */
export interface Comparison {
  readonly subscription: string;
  /** Undefined if they are the same. */
  readonly difference: SubscriptionDifference | undefined;
  /** The events that correct the record; none if nothing can or need be done. */
  readonly corrections: readonly BillingEvent[];
}

/**
 * How far ahead of Stripe's clock a record's mark may be: the record may have
 * taken an event from after the moment at which Stripe was asked, but not from
 * this much later. `forget_marks_ahead` leaves such a mark alone.
 */
const LONGEST_AHEAD_SECONDS = 300;

/**
 * Compares pages of subscriptions with the records, page by page.
 *
 * @param options.only Leaves out all other subscriptions.
 * @param options.asksDatabase Whether `account_of_customer` is asked for those
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

/**
 * Compares a subscription with its record.
 *
 * @param options.customersAccount What `account_of_customer` answers.
 * @param options.askedAtSeconds See `StripeAnswer`.
 */
export function compare(
  subscription: Stripe.Subscription,
  { record, provider, accountFrom, customersAccount, askedAtSeconds }: {
    record: SubscriptionRecord | undefined;
    provider: string;
    accountFrom: string | undefined;
    customersAccount?: string | undefined;
    askedAtSeconds: number;
  },
): Comparison {
  const { id } = subscription;
  const isCanceled = subscription.status === "canceled";
  function comparison(
    difference?: SubscriptionDifference,
    corrections: readonly BillingEvent[] = [],
  ): Comparison {
    return { subscription: id, difference, corrections };
  }

  // A recorded account stays, unless `metadata.accountId` names another one.
  const named = accountOf(subscription, undefined) ?? record?.account_id ??
    accountOf(subscription, accountFrom);
  const account = named ?? customersAccount;
  if (account === undefined) {
    const customer = customerOf(subscription);
    return comparison({ kind: "unmapped", subscription: id, customer });
  }
  // Without an account in the event, the database asks account_of_customer.
  const metadata = { ...subscription.metadata, accountId: named ?? null };
  const object = { ...subscription, metadata };
  const source = { object, provider, askedAtSeconds };
  try {
    const creation = correctionEvent("customer.subscription.created", source);
    const update = correctionEvent("customer.subscription.updated", source);
    const deletion = correctionEvent("customer.subscription.deleted", source);
    if (record === undefined) {
      return comparison(
        { kind: "missing_here", subscription: id, account },
        [creation, update, ...(isCanceled ? [deletion] : [])],
      );
    }
    const fields = fieldDifferences(record, {
      values: { ...creation, ...update, provider } as unknown as Record<
        string,
        FieldValue
      >,
      isCanceled,
      latestSeconds: askedAtSeconds + LONGEST_AHEAD_SECONDS,
    });
    if (fields.length === 0) return comparison();
    const names = new Set(fields.map(({ field }) => field));
    // Each also sets a mark anew.
    const needsCreation = names.has("account_id") || names.has("account_as_of");
    const needsDeletion = isCanceled &&
      (names.has("canceled_at") || names.has("canceled_as_of"));
    return comparison({ kind: "differs", subscription: id, fields }, [
      ...(needsCreation ? [creation] : []),
      update,
      ...(needsDeletion ? [deletion] : []),
    ]);
  } catch (error) {
    if (!(error instanceof DeliveryError)) throw error;
    const { message } = error;
    return comparison({ kind: "unreadable", subscription: id, error: message });
  }
}

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

function customerOf({ customer }: Owned): string {
  return typeof customer === "string" ? customer : customer.id;
}
