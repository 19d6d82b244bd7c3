import {
  applyEvents,
  type BillingEvent,
} from "../../supabase/functions/_shared/billing/apply_events.ts";
import { DeliveryError } from "../../supabase/functions/_shared/billing/errors.ts";
import { isPassing, patiently } from "./patiently.ts";
import type { Tables } from "./records.ts";

/** Events that have to take effect at once, so that nobody sees the half of it. */
export type Group = readonly BillingEvent[];

/** About as many events as the receiver sends together. */
const TOGETHER = 50;

/**
 * Applies events as the receiver does, through `apply_billing_events`. What
 * fails for a reason that passes by itself is tried again.
 *
 * @returns for each group, in the same order, its failure, or undefined where
 * there was none.
 * @throws {DeliveryError} Where a call as a whole fails for good.
 */
export async function applyGroups(
  groups: readonly Group[],
  tables: Tables,
): Promise<(DeliveryError | undefined)[]> {
  const results: (DeliveryError | undefined)[] = [];
  let waiting: Group[] = [];
  for (const [index, group] of groups.entries()) {
    waiting.push(group);
    if (waiting.flat().length < TOGETHER && index < groups.length - 1) continue;
    results.push(...await applyTogether(waiting, tables));
    waiting = [];
  }
  return results;
}

async function applyTogether(
  groups: readonly Group[],
  { database, tools }: Tables,
): Promise<(DeliveryError | undefined)[]> {
  const options = { database, log: () => {}, clock: Date.now };
  let failures: (DeliveryError | undefined)[] | undefined;
  try {
    await patiently(async () => {
      const outcomes = (await applyEvents(groups.flat(), options)).values();
      failures = groups.map((group) =>
        group.map(() => outcomes.next().value)
          .find((outcome) => outcome instanceof DeliveryError)
      );
      const passing = failures.find(isPassing);
      if (passing !== undefined) throw passing;
    }, tools);
  } catch (error) {
    if (failures === undefined) throw error;
  }
  return failures ?? [];
}
