import type Stripe from "stripe";
import { HANDLED_TYPES } from "../../supabase/functions/_shared/billing/formats/stripe.ts";
import { parseEvent } from "../../supabase/functions/_shared/billing/parse_event.ts";
import { lacksAccountId } from "../../supabase/functions/_shared/billing/formats/stripe.ts";
import type { Context } from "./context.ts";
import { settledEvents } from "./recorded_events.ts";
import { recordsOf } from "./records.ts";

/** An event that Stripe could not deliver to one of its endpoints. */
export interface MissedEvent {
  readonly event: Stripe.Event;
  /** Null if the event does not name one. */
  readonly subscription: string | null;
}

/** Reads the undelivered events that would change the tables and have not. */
export async function missedEvents(context: Context): Promise<MissedEvent[]> {
  const events: MissedEvent[] = [];
  for await (const event of context.stripe.undeliveredEvents(HANDLED_TYPES)) {
    const subscription = subscriptionOf(event);
    if (subscription !== undefined) events.push({ event, subscription });
  }
  return await stillMissed(events, context);
}

/**
 * Returns the events that are still not applied, and that nobody has resolved
 * by hand. Events that the receiver acknowledges without an effect are not
 * missed; Stripe lists them if another endpoint of the account fails.
 */
export async function stillMissed(
  events: readonly MissedEvent[],
  context: Context,
): Promise<MissedEvent[]> {
  const ids = events.map(({ event }) => event.id);
  const settled = await settledEvents(ids, context);
  const missed = events.filter(({ event }) => !settled.has(event.id));
  if (context.unmappedSubscriptions === "fail") return missed;
  const withoutAccount = missed.filter(({ event }) => lacksAccountId(event));
  const records = await recordsOf(
    withoutAccount.map(({ subscription }) => subscription ?? ""),
    context,
  );
  const ignored = new Set(
    withoutAccount.filter(({ subscription }) =>
      !records.has(subscription ?? "")
    ),
  );
  return missed.filter((event) => !ignored.has(event));
}

/** Undefined if the event has no effect: an invoice without a subscription. */
function subscriptionOf(event: Stripe.Event): string | null | undefined {
  try {
    const parsed = parseEvent(JSON.stringify(event), {
      nowSeconds: event.created,
      toleranceSeconds: 0,
    });
    return parsed.handled ? parsed.event.subscription_id : undefined;
  } catch {
    const { object } = event.data;
    return event.type.startsWith("customer.subscription.") && "id" in object
      ? `${object.id}`
      : null;
  }
}
