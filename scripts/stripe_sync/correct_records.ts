import {
  applyEvents,
  type BillingEvent,
} from "../../supabase/functions/_shared/billing/apply_events.ts";
import { DeliveryError } from "../../supabase/functions/_shared/billing/errors.ts";
import type { Comparison } from "./compare.ts";
import { callTables, isTransient, retryDatabase } from "./database_calls.ts";
import { isFrozen } from "./difference.ts";
import type { Tables } from "./records.ts";

/** Events that are applied in one call, so that nobody sees only some of them. */
export type EventGroup = readonly BillingEvent[];

/** About as many events per call as the receiver sends. */
const EVENTS_PER_CALL = 50;

/**
 * Brings the records to the state that Stripe's subscriptions had. The marks of
 * frozen records are taken back first: otherwise no correction changes them.
 *
 * @returns why, by subscription, for those that could not be corrected.
 */
export async function correctRecords(
  comparisons: readonly Comparison[],
  tables: Tables,
): Promise<Map<string, string>> {
  for (const { subscription, difference } of comparisons) {
    if (difference?.kind === "differs" && isFrozen(difference.fields)) {
      await forgetMarksAhead(subscription, tables);
    }
  }
  const correctable = comparisons
    .filter(({ corrections }) => corrections.length > 0);
  const failures = await applyGroups(
    correctable.map(({ corrections }) => corrections),
    tables,
  );
  return new Map(
    correctable.flatMap(({ subscription }, i) => {
      const failure = failures[i];
      return failure === undefined ? [] : [[subscription, failure.message]];
    }),
  );
}

/**
 * Takes back the marks of a record that are ahead of the database's clock.
 * Without that, no correction would change the record.
 *
 * @throws {DeliveryError} If the database keeps failing.
 */
async function forgetMarksAhead(
  subscription: string,
  { database, provider, tools }: Tables,
): Promise<void> {
  await callTables((signal) =>
    database.rpc("forget_marks_ahead", {
      p_provider: provider,
      p_subscription_id: subscription,
    }).abortSignal(signal), tools);
}

/**
 * Applies events as the receiver does, through `apply_billing_events`, with
 * retries.
 *
 * @returns for each group, in the same order, its failure, or undefined if
 * there was none.
 * @throws {DeliveryError} If a call as a whole keeps failing.
 */
export async function applyGroups(
  groups: readonly EventGroup[],
  tables: Tables,
): Promise<(DeliveryError | undefined)[]> {
  const results: (DeliveryError | undefined)[] = [];
  let waiting: EventGroup[] = [];
  for (const [index, group] of groups.entries()) {
    waiting.push(group);
    const isLast = index === groups.length - 1;
    if (waiting.flat().length < EVENTS_PER_CALL && !isLast) continue;
    results.push(...await applyTogether(waiting, tables));
    waiting = [];
  }
  return results;
}

async function applyTogether(
  groups: readonly EventGroup[],
  { database, tools }: Tables,
): Promise<(DeliveryError | undefined)[]> {
  const options = { database, log: () => {}, clock: Date.now };
  let failures: (DeliveryError | undefined)[] | undefined;
  try {
    await retryDatabase(async () => {
      const outcomes = (await applyEvents(groups.flat(), options)).values();
      failures = groups.map((group) =>
        group.map(() => outcomes.next().value)
          .find((outcome) => outcome instanceof DeliveryError)
      );
      const transient = failures.find(isTransient);
      if (transient !== undefined) throw transient;
    }, tools);
  } catch (error) {
    if (failures === undefined) throw error;
  }
  return failures ?? [];
}
