import { createHash } from "node:crypto";
import type Stripe from "stripe";
import type { BillingEvent } from "../../supabase/functions/_shared/billing/apply_events.ts";
import { DeliveryError } from "../../supabase/functions/_shared/billing/errors.ts";
import type { HandledEvent } from "../../supabase/functions/_shared/billing/formats/stripe.ts";
import { parseEvent } from "../../supabase/functions/_shared/billing/parse_event.ts";
import type {
  FieldDifference,
  FieldValue,
  SubscriptionDifference,
} from "./differences.ts";
import type { SubscriptionRecord } from "./tables.ts";

/** One subscription at Stripe beside its record. */
export interface Comparison {
  readonly subscription: string;
  /** Undefined if they are the same. */
  readonly difference?: SubscriptionDifference;
  /** The events that correct the record; none if nothing can or need be done. */
  readonly corrections: readonly BillingEvent[];
  /** Whether the record takes no events, because a mark is ahead of the clock. */
  readonly isFrozen: boolean;
}

/** The columns with the times of the newest events that the record took. */
const MARKS = ["account_as_of", "changed_as_of", "canceled_as_of"] as const;

/**
 * How far ahead of Stripe's clock a mark may be: the record may have taken an
 * event from after the moment at which Stripe was asked, but not from this much
 * later. `billing_forget_marks_ahead` leaves such a mark alone.
 */
const LONGEST_AHEAD_SECONDS = 300;

/**
 * How far a correction is dated before the moment at which Stripe was asked. An
 * event may become visible a little later than it is dated, and the clocks of
 * Stripe's machines may differ a little.
 */
const MARGIN_SECONDS = 5;

/**
 * Compares a subscription with its record.
 *
 * @param options.accountFrom See {@linkcode accountOf}.
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
  const { id, status } = subscription;
  const isCanceled = status === "canceled";
  const same = { subscription: id, corrections: [], isFrozen: false };
  // A recorded account stays, unless `metadata.accountId` names another one.
  const named = accountOf(subscription, undefined) ?? record?.account_id ??
    accountOf(subscription, accountFrom);
  const account = named ?? customersAccount;
  if (account === undefined) {
    const customer = customerOf(subscription);
    const difference = {
      kind: "unmapped",
      subscription: id,
      customer,
    } as const;
    return { ...same, difference };
  }
  // Without an account in the event, the database asks account_of_customer.
  const metadata = { ...subscription.metadata, accountId: named ?? null };
  const source = {
    object: { ...subscription, metadata },
    provider,
    askedAtSeconds,
  };
  try {
    const creation = correctionEvent("customer.subscription.created", source);
    const update = correctionEvent("customer.subscription.updated", source);
    const deletion = correctionEvent("customer.subscription.deleted", source);
    if (record === undefined) {
      return {
        ...same,
        difference: { kind: "missing_here", subscription: id, account },
        corrections: [creation, update, ...(isCanceled ? [deletion] : [])],
      };
    }
    const values = {
      provider,
      account_id: account,
      status,
      ...creation.report,
    };
    const marks = marksAhead(record, askedAtSeconds + LONGEST_AHEAD_SECONDS);
    const fields = [...changes(record, { values, isCanceled }), ...marks];
    if (fields.length === 0) return same;
    const names = new Set(fields.map(({ field }) => field));
    // Each also sets a mark anew.
    const needsCreation = names.has("account_id") || names.has("account_as_of");
    const needsDeletion = isCanceled &&
      (names.has("canceled_at") || names.has("canceled_as_of"));
    return {
      ...same,
      difference: { kind: "differs", subscription: id, fields },
      corrections: [
        ...(needsCreation ? [creation] : []),
        update,
        ...(needsDeletion ? [deletion] : []),
      ],
      isFrozen: marks.length > 0,
    };
  } catch (error) {
    if (!(error instanceof DeliveryError)) throw error;
    const difference = { kind: "unreadable", subscription: id } as const;
    return { ...same, difference: { ...difference, error: error.message } };
  }
}

/**
 * Returns the account that a subscription belongs to: `metadata.accountId`, as
 * for the receiver, or else the value of the other source.
 *
 * @param accountFrom A key of the metadata, or `customer` for the customer's ID.
 */
export function accountOf(
  subscription: Pick<Stripe.Subscription, "metadata" | "customer">,
  accountFrom = "accountId",
): string | undefined {
  const metadata = new Map(Object.entries(subscription.metadata));
  const account = metadata.get("accountId");
  if (account?.trim()) return account;
  const other = accountFrom === "customer"
    ? customerOf(subscription)
    : metadata.get(accountFrom);
  return other?.trim() ? other : undefined;
}

/** Returns the ID of a subscription's customer. */
export function customerOf(
  { customer }: Pick<Stripe.Subscription, "customer">,
): string {
  return typeof customer === "string" ? customer : customer.id;
}

/**
 * Returns the fields of a record that differ from Stripe's.
 *
 * @param options.values As a creation reports them, the provider and the account.
 */
function changes(
  record: SubscriptionRecord,
  { values, isCanceled }: {
    values: Readonly<Record<string, FieldValue>>;
    isCanceled: boolean;
  },
): FieldDifference[] {
  const here: Readonly<Record<string, FieldValue>> = {
    ...record,
    current_period_end: isoTime(record.current_period_end),
    cancel_at: isoTime(record.cancel_at),
    trial_end: isoTime(record.trial_end),
    // The time of handling: only whether there is one can be compared.
    canceled_at: record.canceled_at === null ? null : "set",
  };
  const reported = values["provider_status"];
  // A creation is recorded as active, whatever status it reports.
  const isAsCreated = record.status === "active" && !record.changed_by_update &&
    record.provider_status === reported;
  return Object.entries({
    ...values,
    status: isAsCreated ? "active" : reported,
    // A deletion sets the status only, and not what an update reported last.
    ...(isCanceled && { provider_status: record.provider_status }),
    canceled_at: isCanceled ? "set" : here["canceled_at"],
  })
    .map(([field, there = null]) => ({
      field,
      here: here[field] ?? null,
      there,
    }))
    .filter(({ here, there }) => here !== there);
}

/** Returns the marks of a record that are later than any event can be. */
function marksAhead(
  record: SubscriptionRecord,
  latestSeconds: number,
): FieldDifference[] {
  const latest = new Date(latestSeconds * 1000).toISOString();
  return MARKS.map((field) => ({ field, here: isoTime(record[field]) }))
    .filter(({ here }) => (here ?? "") > latest)
    .map((mark) => ({ ...mark, there: `at most ${latest}` }));
}

function isoTime(time: string | null): string | null {
  return time === null ? null : new Date(time).toISOString();
}

/**
 * Returns an event that makes a record as Stripe's subscription. The same
 * correction has the same ID.
 *
 * It is dated between two seconds, before Stripe was asked. So it never meets
 * an event of its own second, wins against every event that the answer is
 * certain to contain, and loses against every event that may be newer
 * (docs/decisions.md).
 *
 * @throws {DeliveryError} If the subscription lacks a field that is needed.
 */
function correctionEvent(
  type: HandledEvent["type"],
  { object, provider, askedAtSeconds }: {
    object: object;
    provider: string;
    askedAtSeconds: number;
  },
): BillingEvent {
  const date = new Date((askedAtSeconds - MARGIN_SECONDS) * 1000 - 500);
  const content = JSON.stringify([provider, date, type, object]);
  const id = `import_${createHash("sha256").update(content).digest("hex")}`;
  const parsed = parseEvent(
    JSON.stringify({ id, type, created: askedAtSeconds, data: { object } }),
    { nowSeconds: askedAtSeconds, toleranceSeconds: 0 },
  );
  if (!parsed.handled) throw new Error(`Nobody handles ${type}`);
  return { ...parsed.event, occurred_at: date.toISOString(), provider };
}
