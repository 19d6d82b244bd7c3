import type { BillingEvent } from "../../supabase/functions/_shared/billing/apply_events.ts";
import { DeliveryError } from "../../supabase/functions/_shared/billing/errors.ts";
import type { Comparison } from "./compare.ts";
import type { Context } from "./context.ts";
import type { SubscriptionDifference } from "./differences.ts";
import { comparePages, missedEvents } from "./find_differences.ts";
import type { Page } from "./stripe_source.ts";
import { parts } from "./tables.ts";

/** How far an import has come. */
export interface Progress {
  /** How many subscriptions of Stripe were compared. */
  read: number;
  /** How many had no record. */
  imported: number;
  /** How many had a record that differed. */
  corrected: number;
  /** Those without an account. */
  unmapped: (SubscriptionDifference & { kind: "unmapped" })[];
  /** Why others could not be recorded, by ID. */
  readonly errors: Map<string, string>;
  /** The last subscription of the last page that is done. */
  after: string | undefined;
}

/**
 * Events that are applied in one call, so that nobody sees only some of them,
 * and the ID of their subscription, or of the only event.
 */
type EventGroup = readonly [id: string, events: readonly BillingEvent[]];

/** Most groups have two events: about as many as the receiver sends per call. */
const GROUPS_PER_CALL = 25;

/** Returns the progress of an import that has not started. */
export function noProgress(after?: string): Progress {
  const counts = { read: 0, imported: 0, corrected: 0 };
  return { ...counts, unmapped: [], errors: new Map(), after };
}

/** Returns how far an import has come, in one line. */
export function progressLine(
  { read, imported, corrected, unmapped, errors, after }: Progress,
): string {
  const counts =
    `${read} read, ${imported} imported, ${corrected} corrected, ${unmapped.length} without an account ID, ${errors.size} failed`;
  return after === undefined ? counts : `${counts}, up to ${after}`;
}

/**
 * Brings the records to the state of Stripe's subscriptions, page by page, and
 * ends between two pages if the context's signal is aborted. The pages before
 * stay imported.
 *
 * @param progress Is kept up to date.
 * @throws {DeliveryError} If the database keeps failing.
 */
export async function importPages(
  pages: AsyncIterable<Page>,
  progress: Progress,
  context: Context,
): Promise<void> {
  // The database is asked for accounts at the end: until then it does not know all
  // subscriptions of a customer, which may have different accounts.
  const options = { asksDatabase: false };
  for await (const page of comparePages(pages, context, options)) {
    await importPage(page, progress, context);
    progress.read += page.length;
    progress.after = page.at(-1)?.subscription ?? progress.after;
    context.onProgress(progressLine(progress));
    context.signal.throwIfAborted();
  }
  const accounts = await context.tables.accountsOf(
    progress.unmapped.map(({ customer }) => customer),
  );
  const { known = [], unknown = [] } = Object.groupBy(
    progress.unmapped,
    ({ customer }) => accounts.has(customer) ? "known" : "unknown",
  );
  progress.unmapped = unknown;
  const again = context.stripe.someSubscriptions(
    known.map(({ subscription }) => subscription),
  );
  for await (const page of comparePages(again, context)) {
    await importPage(page, progress, context);
    context.signal.throwIfAborted();
  }
}

/** Frozen records are freed first: otherwise no correction changes them. */
async function importPage(
  page: readonly Comparison[],
  progress: Progress,
  context: Context,
): Promise<void> {
  for (const { subscription, isFrozen } of page) {
    if (isFrozen) await context.tables.forgetMarksAhead(subscription);
  }
  const errors = await applyGroups(
    page.map(({ subscription, corrections }) => [subscription, corrections]),
    context,
  );
  for (const { subscription, difference } of page) {
    const error = difference?.kind === "unreadable"
      ? difference.error
      : errors.get(subscription);
    if (error !== undefined) progress.errors.set(subscription, error);
    else if (difference?.kind === "missing_here") progress.imported++;
    else if (difference?.kind === "differs") progress.corrected++;
    else if (difference?.kind === "unmapped") {
      progress.unmapped.push(difference);
    }
  }
}

/**
 * Applies the events that Stripe could not deliver, under their own IDs.
 *
 * @returns why, by event, for those that were not applied.
 * @throws {DeliveryError} If the database keeps failing.
 */
export async function applyMissed(
  context: Context,
): Promise<Map<string, string>> {
  const errors = new Map<string, string>();
  const groups: EventGroup[] = [];
  // The database orders the events of one call, but there may be several calls.
  const missed = (await missedEvents(context)).sort((one, other) =>
    one.event.created - other.event.created ||
    Number(isCreation(other)) - Number(isCreation(one))
  );
  for (const { event: { id }, parsed } of missed) {
    if (parsed instanceof DeliveryError) errors.set(id, parsed.message);
    else groups.push([id, [{ ...parsed, provider: context.provider }]]);
  }
  return new Map([...errors, ...await applyGroups(groups, context)]);
}

function isCreation({ event }: { event: { type: string } }): boolean {
  return event.type === "customer.subscription.created";
}

/** @returns why, by the group's ID, for those that were not applied. */
async function applyGroups(
  groups: readonly EventGroup[],
  { tables }: Context,
): Promise<Map<string, string>> {
  const errors = new Map<string, string>();
  const waiting = groups.filter(([, events]) => events.length > 0);
  for (const part of parts(waiting, GROUPS_PER_CALL)) {
    const ids = part.flatMap(([id, events]) => events.map(() => id));
    const outcomes = await tables.apply(part.flatMap(([, events]) => events));
    for (const [i, outcome] of outcomes.entries()) {
      const id = ids[i] ?? "";
      if (!(outcome instanceof DeliveryError) || errors.has(id)) continue;
      errors.set(id, outcome.message);
    }
  }
  return errors;
}
