import { createHash } from "node:crypto";
import type Stripe from "stripe";
import type { BillingEvent } from "../../supabase/functions/_shared/billing/database/apply_events.ts";
import type { PlanItem } from "../../supabase/functions/_shared/billing/events/event_settings.ts";
import { DeliveryError } from "../../supabase/functions/_shared/billing/errors.ts";
import { stripe } from "../../supabase/functions/_shared/billing/events/stripe.ts";
import { parseEvent } from "../../supabase/functions/_shared/billing/events/parse_event.ts";
import type { Context } from "./command.ts";
import type { Difference, FieldDifference, FieldValue } from "./differences.ts";
import type { SubscriptionRecord, Tables } from "./tables.ts";

export interface Comparison {
  readonly subscription: string;
  readonly difference?: Difference;
  /** The events that correct the record; none if nothing can or need be done. */
  readonly corrections: readonly BillingEvent[];
}

/** The columns with the times of the newest events that changed the record. */
const MARKS = ["account_as_of", "changed_as_of", "canceled_as_of"] as const;

/** How far a mark may be ahead of the moment at which Stripe was asked. */
const LONGEST_AHEAD_SECONDS = 300;

/**
 * How far a correction is dated before that moment: an event may become visible a
 * little after its date, and the clocks of Stripe's machines may differ.
 */
const MARGIN_SECONDS = 5;

export async function compare(
  subscription: Stripe.Subscription,
  {
    record,
    provider,
    accountFrom,
    planItem,
    tables,
    askedAtSeconds,
    isErased = false,
  }:
    & Pick<Context, "provider" | "accountFrom" | "planItem">
    & {
      record: SubscriptionRecord | undefined;
      isErased?: boolean;
      tables: Pick<Tables, "accountOfCustomer">;
      askedAtSeconds: number;
    },
): Promise<Comparison> {
  const { id, status } = subscription;
  const differs = (
    difference: Omit<Difference, "subscription">,
    corrections: readonly BillingEvent[] = [],
  ): Comparison => ({
    subscription: id,
    difference: { subscription: id, ...difference },
    corrections,
  });
  if (isErased) return differs({ kind: "erased" });

  const customer = customerOf(subscription);
  // A recorded account stays, unless `metadata.accountId` names another one.
  const named = accountOf(subscription) ?? record?.account_id ??
    accountOf(subscription, accountFrom);
  const account = named ?? await tables.accountOfCustomer(customer);
  if (account === undefined) return differs({ kind: "unmapped", customer });

  // Without an account in the event, the database asks account_of_customer.
  const metadata = { ...subscription.metadata, accountId: named ?? null };
  const object = { ...subscription, metadata };
  const source = { object, provider, planItem, askedAtSeconds };

  try {
    const creation = correctionEvent("created", source);
    const update = correctionEvent("updated", source);
    const values = {
      provider,
      account_id: account,
      status,
      ...creation.report,
      items: textOf(creation.report.items),
    };
    const fields = record && changes(record, values, askedAtSeconds);
    if (fields?.length === 0) return { subscription: id, corrections: [] };

    const concerns = (name: string) =>
      !fields || fields.some(({ field }) => field === name);
    const corrections = [update];
    if (concerns("account_id")) corrections.unshift(creation);
    if (status === "canceled" && concerns("canceled_at")) {
      corrections.push(correctionEvent("deleted", source));
    }
    return differs(
      fields ? { kind: "differs", fields } : { kind: "missing_here", account },
      corrections,
    );
  } catch (error) {
    if (!(error instanceof DeliveryError)) throw error;
    return differs({ kind: "unreadable", error: error.message });
  }
}

/** @param accountFrom Another key of the metadata, or `customer` for the customer's ID. */
export function accountOf(
  subscription: Stripe.Subscription,
  accountFrom = "accountId",
): string | undefined {
  const metadata = new Map(Object.entries(subscription.metadata));
  const other = accountFrom === "customer"
    ? customerOf(subscription)
    : metadata.get(accountFrom);
  return [metadata.get("accountId"), other].find((account) => account?.trim());
}

/** Returns the customer's ID; an empty text if it is missing, despite the types. */
export function customerOf({ customer }: Stripe.Subscription): string {
  return typeof customer === "string" ? customer : customer?.id ?? "";
}

function changes(
  record: SubscriptionRecord,
  values: Readonly<Record<string, FieldValue>>,
  askedAtSeconds: number,
): FieldDifference[] {
  const status = values["status"];
  // A creation is recorded as active, whatever status it reports.
  const isAsCreated = record.status === "active" && !record.changed_by_update &&
    record.provider_status === status;

  const latestMs = (askedAtSeconds + LONGEST_AHEAD_SECONDS) * 1000;
  const ahead = MARKS.filter((mark) =>
    Date.parse(record[mark] ?? "") > latestMs
  );

  const here: Readonly<Record<string, FieldValue>> = {
    ...record,
    items: textOf(record.items),
    // The time of handling is unknown to Stripe, so only its presence is compared.
    canceled_at: record.canceled_at && "set",
  };
  const there: Readonly<Record<string, FieldValue>> = {
    ...values,
    ...(isAsCreated && { status: "active" }),
    // A deletion leaves the `provider_status` that the last update reported.
    ...(status === "canceled" &&
      { provider_status: record.provider_status, canceled_at: "set" }),
    ...Object.fromEntries(
      ahead.map((mark) => [mark, `at most ${isoTime(latestMs)}`]),
    ),
  };

  return Object.entries(there)
    .map(([field, value]) => ({
      field,
      here: comparable(here[field] ?? null),
      there: comparable(value),
    }))
    .filter(({ here, there }) => here !== there);
}

function textOf(items: unknown): string | null {
  if (!Array.isArray(items)) return null;
  const texts = items.map((item) =>
    Object.entries(item).sort().map(([, value]) => value ?? "-").join(" ")
  );
  return texts.join("; ");
}

/** The database has its own notation for times. */
function comparable(value: FieldValue): FieldValue {
  const isTime = /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)$/.test(`${value}`);
  const ms = isTime ? Date.parse(`${value}`) : NaN;
  return Number.isNaN(ms) ? value : isoTime(ms);
}

function isoTime(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}

/**
 * Returns an event that makes a record match Stripe's subscription. It is dated between
 * two seconds, before Stripe was asked, so it wins against every event that the answer
 * is certain to contain, and loses against every event that may be newer.
 */
function correctionEvent(
  change: "created" | "updated" | "deleted",
  { object, provider, planItem, askedAtSeconds }: {
    object: object;
    provider: string;
    planItem: PlanItem;
    askedAtSeconds: number;
  },
): BillingEvent {
  const type = `customer.subscription.${change}`;
  const date = isoTime((askedAtSeconds - MARGIN_SECONDS) * 1000 - 500);
  const content = JSON.stringify([provider, date, type, object]);
  const id = `import_${createHash("sha256").update(content).digest("hex")}`;

  const parsed = parseEvent(
    JSON.stringify({ id, type, created: askedAtSeconds, data: { object } }),
    {
      format: stripe,
      nowSeconds: askedAtSeconds,
      toleranceSeconds: 0,
      planItem,
    },
  );
  if (parsed.isIgnored) throw new Error(`${type} is not handled`);
  return { ...parsed.event, occurred_at: date, provider };
}
