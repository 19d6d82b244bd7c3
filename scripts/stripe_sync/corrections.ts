/**
 * A subscription as the provider has it, beside the record of it here, and the
 * events that would bring the record there.
 *
 * @module
 */
import { createHash } from "node:crypto";
import type Stripe from "stripe";
import type { BillingEvent } from "../../supabase/functions/_shared/billing/apply_events.ts";
import { DeliveryError } from "../../supabase/functions/_shared/billing/errors.ts";
import type { HandledEvent } from "../../supabase/functions/_shared/billing/events.ts";
import { parseEvent } from "../../supabase/functions/_shared/billing/parse_event.ts";
import { accountOf } from "./account_of.ts";
import { type Difference, differences, isFrozen } from "./differences.ts";
import type { SubscriptionRecord } from "./records.ts";

/** What became of the comparison of one subscription. */
export type Comparison =
  | { readonly result: "same" }
  /** Not recorded, and belongs to no account. */
  | { readonly result: "unmapped"; readonly customer: string | undefined }
  /** The provider's lacks a field that is needed. */
  | { readonly result: "unreadable"; readonly error: string }
  | {
    readonly result: "missing";
    readonly account: string;
    readonly corrections: readonly BillingEvent[];
  }
  | {
    readonly result: "differs";
    readonly fields: readonly Difference[];
    /** Whether the record is marked ahead of the provider's clock. */
    readonly isFrozen: boolean;
    readonly corrections: readonly BillingEvent[];
  };

/**
 * How far a correction stays behind the moment at which the provider was asked,
 * in seconds. An event may become visible a little later than it is dated, and
 * the clocks of the provider's machines may differ a little.
 */
const MARGIN_SECONDS = 5;

/**
 * How far ahead of the provider's clock a record's mark may be: what happened
 * after the provider was asked is recorded by now, but not for as long as this.
 * It is what `forget_marks_ahead` leaves alone.
 */
const LONGEST_AHEAD_SECONDS = 300;

/**
 * Compares a subscription with its record.
 *
 * A correction is dated between two seconds, before the provider was asked. So
 * it never meets an event of its own second, wins against all that the answer
 * is certain to contain, and loses against all that may be newer
 * (docs/decisions.md).
 *
 * @param options.askedAt See `Answer`.
 */
export function compare(
  subscription: Stripe.Subscription,
  { record, provider, accountFrom, askedAt }: {
    record: SubscriptionRecord | undefined;
    provider: string;
    accountFrom: string | undefined;
    askedAt: number;
  },
): Comparison {
  // What is recorded was decided before: only the provider's word overrules it.
  const account = accountOf(subscription, undefined) ?? record?.account_id ??
    accountOf(subscription, accountFrom);
  if (account === undefined) {
    const { customer } = subscription;
    return {
      result: "unmapped",
      customer: typeof customer === "string" ? customer : customer?.id,
    };
  }
  const date = new Date((askedAt - MARGIN_SECONDS) * 1000 - 500);
  const object = {
    ...subscription,
    metadata: { ...subscription.metadata, accountId: account },
  };

  function correction(type: HandledEvent["type"]): BillingEvent {
    // The same correction is the same event.
    const what = JSON.stringify([provider, date, type, object]);
    const id = createHash("sha256").update(what).digest("hex");
    const text = JSON.stringify({
      id: `import_${id}`,
      type,
      created: askedAt,
      data: { object },
    });
    const parsed = parseEvent(text, {
      nowSeconds: askedAt,
      toleranceSeconds: 0,
    });
    if (!parsed.handled) throw new Error(`Nobody handles ${type}`);
    return { ...parsed.event, created: date.toISOString(), provider };
  }

  try {
    const creation = correction("customer.subscription.created");
    const update = correction("customer.subscription.updated");
    const deletion = correction("customer.subscription.deleted");
    const isCanceled = subscription.status === "canceled";
    if (record === undefined) {
      return {
        result: "missing",
        account,
        corrections: [creation, update, ...(isCanceled ? [deletion] : [])],
      };
    }
    const there = { ...creation, ...update, provider } as Partial<
      Record<string, string>
    >;
    const latest = askedAt + LONGEST_AHEAD_SECONDS;
    const fields = differences(record, { there, isCanceled, latest });
    if (fields.length === 0) return { result: "same" };
    const differs = (...names: string[]) =>
      fields.some(({ field }) => names.includes(field));
    return {
      result: "differs",
      fields,
      isFrozen: isFrozen(fields),
      // Each also sets a mark anew.
      corrections: [
        ...(differs("account_id", "account_as_of") ? [creation] : []),
        update,
        ...(isCanceled && differs("canceled_at", "canceled_as_of")
          ? [deletion]
          : []),
      ],
    };
  } catch (error) {
    if (!(error instanceof DeliveryError)) throw error;
    return { result: "unreadable", error: error.message };
  }
}
