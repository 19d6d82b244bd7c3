import type Stripe from "stripe";
import type { BillingEvent } from "../../supabase/functions/_shared/billing/apply_events.ts";
import { DeliveryError } from "../../supabase/functions/_shared/billing/errors.ts";
import { accountOf, customerOf } from "./account_of.ts";
import { correctionEvent } from "./correction_event.ts";
import type { SubscriptionDifference } from "./difference.ts";
import { fieldDifferences } from "./field_differences.ts";
import type { SubscriptionRecord } from "./records.ts";

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
 * this much later. `billing_forget_marks_ahead` leaves such a mark alone.
 */
const LONGEST_AHEAD_SECONDS = 300;

/**
 * Compares a subscription with its record.
 *
 * @param options.customersAccount What `billing.account_of_customer` answers.
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
      values: { ...creation.report, provider, account_id: account },
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
