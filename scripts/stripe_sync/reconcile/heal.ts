import type Stripe from "stripe";
import { DEFAULT_TOLERANCE_SECONDS } from "../../../supabase/functions/_shared/billing/config.ts";
import {
  DeliveryError,
  toDeliveryError,
} from "../../../supabase/functions/_shared/billing/errors.ts";
import { parseEvent } from "../../../supabase/functions/_shared/billing/parse_event.ts";
import { lacksAccountId } from "../../../supabase/functions/_shared/billing/unmapped.ts";
import { applyGroups, type Group } from "../apply_groups.ts";
import { correct } from "../correct.ts";
import { recordsOf, type Tables } from "../records.ts";
import type { Examination } from "./examine.ts";
import type { Scope } from "./scope.ts";
import { missedEvents } from "./missed_events.ts";

/**
 * Mends what can be: the records first, so that events of a subscription that
 * was missing find it, then the events that were missed, under their own ids.
 *
 * @returns why, for what could not be mended, by subscription or event.
 */
export async function heal(
  { compared }: Examination,
  scope: Scope,
): Promise<Map<string, string>> {
  const { provider, tables } = scope;
  const errors = await correct(compared, tables);
  const missed = (await missedEvents(provider, scope))
    .map(({ event }) => event)
    .sort(byOccurrence);
  const groups: { id: string; group: Group }[] = [];
  for (const event of missed) {
    try {
      groups.push({ id: event.id, group: [await parsed(event, tables)] });
    } catch (thrown) {
      errors.set(event.id, toDeliveryError(thrown).message);
    }
  }
  const failures = await applyGroups(groups.map(({ group }) => group), tables);
  for (const [i, failure] of failures.entries()) {
    if (failure !== undefined) errors.set(groups[i]?.id ?? "", failure.message);
  }
  return errors;
}

/** In one call the database orders them itself; they may not be in one call. */
function byOccurrence(one: Stripe.Event, other: Stripe.Event): number {
  const isCreation = ({ type }: Stripe.Event) =>
    type === "customer.subscription.created";
  return one.created - other.created ||
    Number(isCreation(other)) - Number(isCreation(one));
}

async function parsed(event: Stripe.Event, tables: Tables) {
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
 * A creation that lacks the account of a subscription that is recorded by now
 * gets it from the record, as a person would repair it.
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
