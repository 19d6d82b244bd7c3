import type Stripe from "stripe";
import type { BillingEvent } from "../../supabase/functions/_shared/billing/apply_events.ts";
import { DEFAULT_TOLERANCE_SECONDS } from "../../supabase/functions/_shared/billing/config.ts";
import {
  DeliveryError,
  toDeliveryError,
} from "../../supabase/functions/_shared/billing/errors.ts";
import { parseEvent } from "../../supabase/functions/_shared/billing/parse_event.ts";
import { lacksAccountId } from "../../supabase/functions/_shared/billing/unmapped.ts";
import type { Context } from "./context.ts";
import { applyGroups, correctRecords } from "./correct_records.ts";
import type { FoundDifferences } from "./find_differences.ts";
import { missedEvents } from "./missed_events.ts";
import { recordsOf, type Tables } from "./records.ts";

/**
 * Fixes what can be fixed: first the records, so that events of a subscription
 * that was missing find it, then the missed events, under their own IDs.
 *
 * @returns why, by subscription or event, for what could not be fixed.
 */
export async function applyFixes(
  { comparisons }: FoundDifferences,
  context: Context,
): Promise<Map<string, string>> {
  const errors = await correctRecords(comparisons, context);
  const missed = (await missedEvents(context))
    .map(({ event }) => event)
    .sort(byOccurrence);
  const parsed = new Map<string, BillingEvent[]>();
  for (const event of missed) {
    try {
      parsed.set(event.id, [await parse(event, context)]);
    } catch (thrown) {
      errors.set(event.id, toDeliveryError(thrown).message);
    }
  }
  return new Map([...errors, ...await applyGroups(parsed, context)]);
}

/** The database orders the events of one call, but there may be several calls. */
function byOccurrence(one: Stripe.Event, other: Stripe.Event): number {
  const isCreation = ({ type }: Stripe.Event) =>
    type === "customer.subscription.created";
  return one.created - other.created ||
    Number(isCreation(other)) - Number(isCreation(one));
}

async function parse(event: Stripe.Event, tables: Tables) {
  const text = JSON.stringify(await withAccount(event, tables));
  const result = parseEvent(text, {
    nowSeconds: Date.now() / 1000,
    toleranceSeconds: DEFAULT_TOLERANCE_SECONDS,
  });
  if (!result.handled) {
    throw new DeliveryError("internal_error", `Nobody handles ${event.type}`);
  }
  return { ...result.event, provider: tables.provider };
}

/**
 * Completes a creation that lacks the account ID from the subscription's
 * record, as a person would.
 */
async function withAccount(event: Stripe.Event, tables: Tables) {
  if (
    event.type !== "customer.subscription.created" || !lacksAccountId(event)
  ) return event;
  const { object } = event.data;
  const record = (await recordsOf([object.id], tables)).get(object.id);
  if (record === undefined) return event;
  const metadata = { ...object.metadata, accountId: record.account_id };
  return { ...event, data: { object: { ...object, metadata } } };
}
