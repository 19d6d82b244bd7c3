import { createHash } from "node:crypto";
import type { BillingEvent } from "../../supabase/functions/_shared/billing/apply_events.ts";
import type { HandledEvent } from "../../supabase/functions/_shared/billing/formats/stripe.ts";
import { parseEvent } from "../../supabase/functions/_shared/billing/parse_event.ts";

/**
 * How far a correction is dated before the moment at which Stripe was asked. An
 * event may become visible a little later than it is dated, and the clocks of
 * Stripe's machines may differ a little.
 */
const MARGIN_SECONDS = 5;

/**
 * Returns an event that makes a record as Stripe's subscription. The same
 * correction has the same ID.
 *
 * It is dated between two seconds, before Stripe was asked. So it never meets
 * an event of its own second, wins against every event that the answer is
 * certain to contain, and loses against every event that may be newer
 * (docs/decisions.md).
 *
 * @param source.object The subscription, with its account in the metadata.
 * @param source.askedAtSeconds See `StripeAnswer`.
 * @throws {DeliveryError} If the subscription lacks a field that is needed.
 */
export function correctionEvent(
  type: HandledEvent["type"],
  { object, provider, askedAtSeconds }: {
    object: object;
    provider: string;
    askedAtSeconds: number;
  },
): BillingEvent {
  const date = new Date((askedAtSeconds - MARGIN_SECONDS) * 1000 - 500);
  const content = JSON.stringify([provider, date, type, object]);
  const hash = createHash("sha256").update(content).digest("hex");
  const text = JSON.stringify({
    id: `import_${hash}`,
    type,
    created: askedAtSeconds,
    data: { object },
  });
  const parsed = parseEvent(text, {
    nowSeconds: askedAtSeconds,
    toleranceSeconds: 0,
  });
  if (!parsed.handled) throw new Error(`Nobody handles ${type}`);
  return { ...parsed.event, occurred_at: date.toISOString(), provider };
}
