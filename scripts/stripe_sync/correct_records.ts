import {
  applyEvents,
  type BillingEvent,
} from "../../supabase/functions/_shared/billing/apply_events.ts";
import { DeliveryError } from "../../supabase/functions/_shared/billing/errors.ts";
import type { Comparison } from "./compare.ts";
import type { Context } from "./context.ts";
import { isTransient, retryDatabase, send } from "./database_calls.ts";
import { isFrozen } from "./field_differences.ts";

/**
 * Events that are applied in one call, so that nobody sees only some of them,
 * by the ID of their subscription, or of the only event.
 */
export type EventGroups = ReadonlyMap<string, readonly BillingEvent[]>;

/** Most groups have two events: about as many as the receiver sends per call. */
const GROUPS_PER_CALL = 25;

/**
 * Brings the records to the state that Stripe's subscriptions had. The marks of
 * frozen records are taken back first: otherwise no correction changes them.
 *
 * @returns why, by subscription, for those that could not be corrected.
 * @throws {DeliveryError} If the database keeps failing.
 */
export async function correctRecords(
  comparisons: readonly Comparison[],
  context: Context,
): Promise<Map<string, string>> {
  const { database, provider, wait } = context;
  for (const { subscription, difference } of comparisons) {
    if (difference?.kind !== "differs" || !isFrozen(difference.fields)) {
      continue;
    }
    const record = { p_provider: provider, p_subscription_id: subscription };
    await send(
      () => database.rpc("billing_forget_marks_ahead", record),
      wait,
    );
  }
  const groups = comparisons
    .filter(({ corrections }) => corrections.length > 0)
    .map(({ subscription, corrections }) =>
      [subscription, corrections] as const
    );
  return await applyGroups(new Map(groups), context);
}

/**
 * Applies events as the receiver does, through `billing_apply_events`, with
 * retries.
 *
 * @returns why, by the group's ID, for those that were not applied.
 * @throws {DeliveryError} If a call as a whole keeps failing.
 */
export async function applyGroups(
  groups: EventGroups,
  context: Context,
): Promise<Map<string, string>> {
  const errors = new Map<string, string>();
  const waiting = [...groups];
  while (waiting.length > 0) {
    const events = waiting.splice(0, GROUPS_PER_CALL).flatMap(([id, group]) =>
      group.map((event) => ({ id, event }))
    );
    const outcomes = await applyTogether(
      events.map(({ event }) => event),
      context,
    );
    for (const [i, { id }] of events.entries()) {
      const outcome = outcomes[i];
      if (!(outcome instanceof DeliveryError) || errors.has(id)) continue;
      errors.set(id, outcome.message);
    }
  }
  return errors;
}

/** Repeats the call while an event fails that may succeed later. */
async function applyTogether(
  events: readonly BillingEvent[],
  { database, oncePerInvoice, wait }: Context,
): ReturnType<typeof applyEvents> {
  const options = { database, oncePerInvoice };
  let outcomes: Awaited<ReturnType<typeof applyEvents>> | undefined;
  try {
    await retryDatabase(async () => {
      outcomes = await applyEvents(events, options);
      const transient = outcomes.find(isTransient);
      if (transient !== undefined) throw transient;
    }, wait);
  } catch (error) {
    if (outcomes === undefined) throw error;
  }
  return outcomes ?? [];
}
