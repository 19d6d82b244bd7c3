import type Stripe from "stripe";
import type { BillingEvent } from "../../supabase/functions/_shared/billing/apply_events.ts";
import { DEFAULT_TOLERANCE_SECONDS } from "../../supabase/functions/_shared/billing/config.ts";
import {
  DeliveryError,
  toDeliveryError,
} from "../../supabase/functions/_shared/billing/errors.ts";
import { parseEvent } from "../../supabase/functions/_shared/billing/parse_event.ts";
import { compareUnmappedAgain } from "./compare_pages.ts";
import type { Context } from "./context.ts";
import { applyGroups, correctRecords } from "./correct_records.ts";
import type { FoundDifferences } from "./find_differences.ts";
import { type MissedEvent, missedEvents } from "./missed_events.ts";

/**
 * Fixes what can be fixed: first the records, then the missed events, under their
 * own IDs. They find the records that were missing, and failed payments find the
 * right account. Updates are older than the corrections, and only set
 * `past_due_since`: a correction has just the time at which Stripe was asked.
 *
 * @returns why, by subscription or event, for what could not be fixed.
 */
export async function applyFixes(
  { comparisons }: FoundDifferences,
  context: Context,
): Promise<Map<string, string>> {
  // The database finds out the account of some, and for that it has to know the
  // other subscriptions of the customer.
  const { named = [], unnamed = [] } = Object.groupBy(
    comparisons,
    ({ corrections }) => asksForAccount(corrections) ? "unnamed" : "named",
  );
  const errors = [
    ...await correctRecords(named, context),
    ...await correctRecords(unnamed, context),
  ];
  const differences = comparisons.map(({ difference }) => difference);
  for await (const page of compareUnmappedAgain(differences, context)) {
    errors.push(...await correctRecords(page, context));
  }

  // Asked again: with more records, fewer events are those of other products.
  const left = await missedEvents(context);
  return new Map([...errors, ...await applyMissed(left, context)]);
}

function asksForAccount(corrections: readonly BillingEvent[]): boolean {
  return corrections.some((event) =>
    event.kind === "creation" && event.account_id === null
  );
}

async function applyMissed(
  missed: readonly MissedEvent[],
  context: Context,
): Promise<Map<string, string>> {
  const errors = new Map<string, string>();
  const parsed = new Map<string, BillingEvent[]>();
  for (const event of missed.map(({ event }) => event).sort(byOccurrence)) {
    try {
      parsed.set(event.id, [parse(event, context)]);
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

function parse(event: Stripe.Event, { provider }: Context): BillingEvent {
  const result = parseEvent(JSON.stringify(event), {
    nowSeconds: Date.now() / 1000,
    toleranceSeconds: DEFAULT_TOLERANCE_SECONDS,
  });
  if (!result.handled) {
    throw new DeliveryError("internal_error", `Nobody handles ${event.type}`);
  }
  return { ...result.event, provider };
}
