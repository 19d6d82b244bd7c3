import type Stripe from "stripe";
import { HANDLED_TYPES } from "../../../supabase/functions/_shared/billing/events.ts";
import { parseEvent } from "../../../supabase/functions/_shared/billing/parse_event.ts";
import {
  lacksAccountId,
  type UnmappedChoice,
} from "../../../supabase/functions/_shared/billing/unmapped.ts";
import type { Provider } from "../open_provider.ts";
import {
  appliedEvents,
  recordsOf,
  resolvedByHand,
  type Tables,
} from "../records.ts";

/** An event that the provider could not deliver, to any of its endpoints. */
export interface MissedEvent {
  readonly event: Stripe.Event;
  /** Null where the event does not tell. */
  readonly subscription: string | null;
}

/** The provider's undelivered events that have an effect and had none yet. */
export async function missedEvents(
  provider: Provider,
  options: { tables: Tables; unmappedSubscriptions: UnmappedChoice },
): Promise<MissedEvent[]> {
  const events: MissedEvent[] = [];
  for await (const event of provider.undeliveredEvents(HANDLED_TYPES)) {
    const subscription = subscriptionOf(event);
    if (subscription !== undefined) events.push({ event, subscription });
  }
  return await stillMissed(events, options);
}

/**
 * Those of them that are still not in the ledger, and that nobody has settled
 * by hand. What the receiver has acknowledged without an effect is not missed; it is in the provider's list
 * where another endpoint of the account fails.
 */
export async function stillMissed(
  events: readonly MissedEvent[],
  { tables, unmappedSubscriptions }: {
    tables: Tables;
    unmappedSubscriptions: UnmappedChoice;
  },
): Promise<MissedEvent[]> {
  const ids = events.map(({ event }) => event.id);
  const settled = (await appliedEvents(ids, tables))
    .union(await resolvedByHand(ids, tables));
  const missed = events.filter(({ event }) => !settled.has(event.id));
  if (unmappedSubscriptions === "fail") return missed;
  const withoutAccount = missed.filter(({ event }) => lacksAccountId(event));
  const records = await recordsOf(
    withoutAccount.map(({ subscription }) => subscription ?? ""),
    tables,
  );
  const ignored = new Set(
    withoutAccount.filter(({ event, subscription }) =>
      event.type === "customer.subscription.created" ||
      !records.has(subscription ?? "")
    ),
  );
  return missed.filter((event) => !ignored.has(event));
}

/** Undefined where the event has no effect: an invoice without a subscription. */
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
