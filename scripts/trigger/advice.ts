import type { EventType } from "../../tests/fixtures/templates.ts";
import type { TriggerArguments } from "./arguments.ts";
import { DEFAULT_URL } from "./usage.ts";

const CREATED = "customer.subscription.created";

const NEXT: Partial<Record<EventType, EventType>> = {
  "customer.subscription.created": "customer.subscription.updated",
  "customer.subscription.updated": "customer.subscription.deleted",
  "customer.subscription.deleted": CREATED,
};

/** What to do after this answer, in a line; null where there is no advice. */
export function advice(
  status: number,
  sent: TriggerArguments,
): string | null {
  const type = "type" in sent.what ? sent.what.type : null;
  if (status >= 200 && status < 300) {
    if (type === "payment_intent.payment_failed") {
      return "The service does not handle this type: acknowledged, and nothing stored.";
    }
    if (type === "invoice.payment_failed") {
      return "Next: see the table notifications. The worker sends what is in it.";
    }
    const next = type && NEXT[type];
    return next ? `Next: ${command(next, sent)}` : null;
  }
  switch (status) {
    case 401:
      return `Has the receiver the secret that this command signs with? See PROVIDER_${sent.provider.toUpperCase()}_SIGNING_SECRET in its environment, in this one, and in supabase/functions/.env.`;
    case 404:
      return "Is this the receiver's address? Its path is /functions/v1/billing-webhook.";
    case 500:
      return type === null || type === CREATED
        ? "The receiver's log says why, and the table failed_events what."
        : `Is there such a subscription? If not, send this first: ${
          command(CREATED, sent)
        }`;
    case 503:
      return "The receiver does not reach its database, or has too much to do. Try again, with the same --event.";
    default:
      return null;
  }
}

function command(
  type: string,
  { provider, url, what }: TriggerArguments,
): string {
  const subscription = "type" in what ? what.subscription : undefined;
  return [
    "deno task trigger",
    type,
    ...(provider === "a" ? [] : [`--provider ${provider}`]),
    ...(subscription === undefined ? [] : [`--subscription ${subscription}`]),
    ...(url === DEFAULT_URL ? [] : [`--url ${url}`]),
  ].join(" ");
}
