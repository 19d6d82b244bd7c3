import type { EventType } from "../events/templates.ts";
import { ANSWERS } from "../../supabase/functions/_shared/billing/errors.ts";
import type { TriggerArguments } from "./arguments.ts";
import { defaultSubscription } from "./build_event.ts";
import type { Answer } from "./send.ts";
import { LOCAL_WEBHOOK_URL } from "../common/local_webhook_url.ts";

const CREATED = "customer.subscription.created";

const NEXT: Partial<Record<EventType, EventType>> = {
  "customer.subscription.created": "customer.subscription.updated",
  "customer.subscription.updated": "invoice.payment_failed",
  "invoice.payment_failed": "customer.subscription.deleted",
};

const FILED = "Filed in failed_events: select * from public.open_failures;";

/** What to do after this answer, in a line; null where there is no advice. */
export function advice(
  { status, body }: Answer,
  sent: TriggerArguments,
): string | null {
  const type = "type" in sent.what ? sent.what.type : null;
  if (status >= 200 && status < 300) {
    if (type === "payment_intent.payment_failed") {
      return "The service does not handle this type: acknowledged, and nothing stored.";
    }
    if (type === "customer.subscription.deleted") {
      return `Next, another subscription: ${command(CREATED, another(sent))}`;
    }
    const next = type && NEXT[type];
    if (!next) return null;
    const seen = type === "invoice.payment_failed"
      ? "See the table notifications: the worker sends what is in it. "
      : "";
    return `${seen}Next: ${command(next, sent)}`;
  }
  switch (status) {
    case 400:
    case 422:
      return FILED;
    case 401:
      return `Has the receiver the secret that this command signs with? See PROVIDER_${sent.provider.toUpperCase()}_SIGNING_SECRET in its environment, in this one, and in supabase/functions/.env.`;
    case 404:
      return "Is this the receiver's address? Its path is /functions/v1/billing-webhook.";
    case 500:
      if (body === ANSWERS.provider_misconfigured.body) {
        return `The receiver's log names what is missing or bad: as a rule PROVIDER_${sent.provider.toUpperCase()}_SIGNING_SECRET.`;
      }
      return type === null || type === CREATED
        ? `The receiver's log says why. ${FILED}`
        : `Is there such a subscription? If not, send this first: ${
          command(CREATED, sent)
        }`;
    case 503:
      return "The receiver does not reach its database, or has too much to do. Try again, with the same --event.";
    default:
      return null;
  }
}

/** What was sent, about a subscription that there is not yet. */
function another(sent: TriggerArguments): TriggerArguments {
  const { what, provider } = sent;
  if (!("type" in what)) return sent;
  const { subscription = defaultSubscription(provider) } = what;
  return { ...sent, what: { ...what, subscription: `${subscription}_2` } };
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
    ...(url === LOCAL_WEBHOOK_URL ? [] : [`--url ${url}`]),
  ].join(" ");
}
