import type Stripe from "stripe";
import type { BillingEvent } from "../../supabase/functions/_shared/billing/apply_events.ts";
import { DEFAULT_TOLERANCE_SECONDS } from "../../supabase/functions/_shared/billing/config.ts";
import {
  DeliveryError,
  toDeliveryError,
} from "../../supabase/functions/_shared/billing/errors.ts";
import { parseEvent } from "../../supabase/functions/_shared/billing/parse_event.ts";
import type { Context } from "./command.ts";
import { accountOf } from "./compare.ts";
import type { Difference } from "./differences.ts";
import { comparePage, missedEvents } from "./find_differences.ts";
import type { Page } from "./stripe_source.ts";
import { parts } from "./tables.ts";

/** What an import did. */
export interface Imported {
  /** How many subscriptions of Stripe were compared. */
  read: number;
  /** What differed before, by ID. */
  readonly different: Map<string, Difference>;
  /** Why some could not be recorded, by ID. */
  readonly errors: Map<string, string>;
}

/** Most groups have two events: about as many as the receiver sends per call. */
const GROUPS_PER_CALL = 25;

/**
 * Brings the records to the state of Stripe's subscriptions, page by page.
 *
 * @throws {DeliveryError} If the database keeps failing.
 */
export async function importPages(
  pages: AsyncIterable<Page>,
  context: Context,
): Promise<Imported> {
  const imported = { read: 0, different: new Map(), errors: new Map() };
  // Those that do not name their account come last: until then the database does
  // not know all subscriptions of a customer, which may have different accounts.
  const left: Page[] = [];
  for await (const page of pages) {
    const { named = [], nameless = [] } = Object.groupBy(
      page.data,
      (subscription) =>
        accountOf(subscription, context.accountFrom) ? "named" : "nameless",
    );
    left.push({ ...page, data: nameless });
    await importPage({ ...page, data: named }, imported, context);
  }
  for (const page of left) await importPage(page, imported, context);
  return imported;
}

async function importPage(
  page: Page,
  imported: Imported,
  context: Context,
): Promise<void> {
  const { different, errors } = imported;
  const compared = await comparePage(page, context);
  imported.read += compared.length;
  for (const { subscription, difference } of compared) {
    if (difference === undefined) continue;
    different.set(subscription, difference);
    const { error, fields = [] } = difference;
    if (error !== undefined) errors.set(subscription, error);
    // Otherwise no correction changes the record.
    const isFrozen = fields.some(({ field }) => field.endsWith("_as_of"));
    if (isFrozen) await context.tables.forgetMarksAhead(subscription);
  }
  const groups = compared.map(({ corrections }) => corrections);
  // The first failure of a subscription is the reason of the others.
  for (
    const [event, message] of (await applyGroups(groups, context)).reverse()
  ) {
    errors.set(event.subscription_id, message);
  }
}

/**
 * Applies the events that Stripe could not deliver, under their own IDs.
 *
 * @param undelivered The newest first, as Stripe lists them.
 * @returns why, by event, for those that were not applied.
 * @throws {DeliveryError} If the database keeps failing.
 */
export async function applyMissed(
  undelivered: readonly Stripe.Event[],
  context: Context,
): Promise<Map<string, string>> {
  const errors = new Map<string, string>();
  const groups: BillingEvent[][] = [];
  const missed = await missedEvents(undelivered, context);
  // The database orders the events of one call, but there may be several calls.
  for (const event of missed.reverse()) {
    try {
      const parsed = parseEvent(JSON.stringify(event), {
        nowSeconds: Date.now() / 1000,
        toleranceSeconds: DEFAULT_TOLERANCE_SECONDS,
      });
      if (!parsed.handled) continue;
      groups.push([{ ...parsed.event, provider: context.provider }]);
    } catch (thrown) {
      errors.set(event.id, toDeliveryError(thrown).message);
    }
  }
  for (const [{ event_id }, message] of await applyGroups(groups, context)) {
    errors.set(event_id, message);
  }
  return errors;
}

/**
 * Applies groups of events. The events of a group are in one call, so that nobody
 * sees only some of them applied.
 *
 * @returns the events that failed, and why.
 */
async function applyGroups(
  groups: readonly (readonly BillingEvent[])[],
  { tables }: Context,
): Promise<[BillingEvent, string][]> {
  const failed: [BillingEvent, string][] = [];
  const waiting = groups.filter(({ length }) => length > 0);
  for (const part of parts(waiting, GROUPS_PER_CALL)) {
    const events = part.flat();
    const outcomes = await tables.apply(events);
    for (const [i, event] of events.entries()) {
      const outcome = outcomes[i];
      if (outcome instanceof DeliveryError) {
        failed.push([event, outcome.message]);
      }
    }
  }
  return failed;
}
