import type Stripe from "stripe";
import type { BillingEvent } from "../../supabase/functions/_shared/billing/database/apply_events.ts";
import {
  DEFAULT_TOLERANCE_SECONDS,
  handlerName,
} from "../../supabase/functions/_shared/billing/events/event_settings.ts";
import { toDeliveryError } from "../../supabase/functions/_shared/billing/errors.ts";
import { stripe } from "../../supabase/functions/_shared/billing/events/stripe.ts";
import { parseEvent } from "../../supabase/functions/_shared/billing/events/parse_event.ts";
import type { Context } from "./command.ts";
import { accountOf } from "./compare.ts";
import type { Difference } from "./differences.ts";
import { comparePage, missedEvents } from "./find_differences.ts";
import type { Page } from "./stripe_source.ts";

/** Brings the records to the state of Stripe's subscriptions, page by page. */
export async function importPages(
  pages: AsyncIterable<Page>,
  context: Context,
) {
  let read = 0;
  const different = new Map<string, Difference>();
  const errors = new Map<string, string>();

  function note(subscription: string, difference: Difference) {
    const { error, fields = [] } = difference;
    different.set(subscription, difference);
    if (error !== undefined) errors.set(subscription, error);
    // No correction changes the record until a mark that is ahead is set back.
    const ahead = fields.find(({ field }) => field.endsWith("_as_of"));
    if (ahead) {
      errors.set(
        subscription,
        `first set ${ahead.field} back (docs/reconcile.md)`,
      );
    }
  }

  async function importPage(page: Page): Promise<void> {
    const compared = await comparePage(page, context);
    read += compared.length;
    for (const { subscription, difference } of compared) {
      if (difference) note(subscription, difference);
    }

    const { failed } = await context.tables.apply(
      compared.map(({ corrections }) => corrections),
    );
    // A subscription's first failure is the reason for its others.
    for (const [{ subscription_id }, message] of failed.reverse()) {
      errors.set(subscription_id!, message);
    }
  }

  // Subscriptions that do not name their account come last: the database finds it by
  // the customer's other subscriptions, and must know all of them to see if they differ.
  const last: Page[] = [];
  for await (const page of pages) {
    const { named = [], unnamed = [] } = Object.groupBy(
      page.data,
      (subscription) =>
        accountOf(subscription, context.accountFrom) ? "named" : "unnamed",
    );
    last.push({ ...page, data: unnamed });
    await importPage({ ...page, data: named });
  }
  for (const page of last) await importPage(page);

  return { read, different, errors };
}

/**
 * Applies the events that Stripe could not deliver, under their own IDs. An event
 * with a handler of the app is left to a delivery or a retry, which run the
 * handler: once it is applied here, those would be duplicates.
 *
 * @param undelivered The newest first, as Stripe lists them.
 * @returns the reasons why events were not applied, by ID.
 */
export async function applyMissed(
  undelivered: readonly Stripe.Event[],
  context: Context,
): Promise<Map<string, string>> {
  const errors = new Map<string, string>();
  const groups: BillingEvent[][] = [];

  const missed = await missedEvents(undelivered, context);
  const handlers = await context.tables.handlers();
  const withoutHandler = (await context.tables.openFailures())
    .filter(({ error_code }) => error_code === "handler_missing")
    .map(({ event }) => event);

  // The database orders the events of one call, but there may be several calls.
  for (const event of missed.reverse()) {
    const name = handlerName(event.type);
    if (handlers.has(name) || withoutHandler.includes(event.id)) {
      errors.set(
        event.id,
        `billing.${name} must run for it, which only a delivery or a retry does. Have Stripe send it again`,
      );
      continue;
    }

    try {
      const parsed = parseEvent(JSON.stringify(event), {
        format: stripe,
        nowSeconds: Date.now() / 1000,
        toleranceSeconds: DEFAULT_TOLERANCE_SECONDS,
        planItem: context.planItem,
        notify: context.notify,
        oncePerInvoice: context.oncePerInvoice,
      });
      if (parsed.isIgnored) continue;
      groups.push([{ ...parsed.event, provider: context.provider }]);
    } catch (thrown) {
      errors.set(event.id, toDeliveryError(thrown).message);
    }
  }

  const { failed } = await context.tables.apply(groups);
  for (const [{ event_id }, message] of failed) errors.set(event_id, message);
  return errors;
}
