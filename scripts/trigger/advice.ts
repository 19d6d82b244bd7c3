import { ERRORS } from "../../supabase/functions/_shared/billing/errors.ts";
import { settingsPrefix } from "../../supabase/functions/billing-webhook/providers.ts";
import { asTyped } from "../common/how_started.ts";
import type { Reply } from "../common/send_request.ts";
import { shellWord } from "../common/shell_word.ts";
import type { EventType } from "../events/templates.ts";
import type { TriggerArguments } from "./arguments.ts";
import { defaultSubscription } from "./build_event.ts";

const CREATED = "customer.subscription.created";

const NEXT: Partial<Record<EventType, EventType>> = {
  "customer.subscription.created": "customer.subscription.updated",
  "customer.subscription.updated": "invoice.payment_failed",
  "invoice.payment_failed": "customer.subscription.deleted",
};

const RECORDED = `The event is in billing.failed_events. To repair it: ${
  asTyped("console")
}, or docs/runbook.md for SQL`;

/** Also what is not known: most likely there is no creation yet. */
const CREATION_MISSING = /^(?:|subscription_unknown|creation_pending)$/;

/** What was sent; without `url`, to where it is sent by default. */
export type Sent =
  & Pick<TriggerArguments, "provider" | "source">
  & { readonly url?: string | undefined };

/**
 * Returns what to do after a reply, in one line; null if there is no advice.
 *
 * @param reply.errorCode Of the row in `billing.failed_events`, if that could be read.
 */
export function advice(
  { status, body, errorCode }: Pick<Reply, "status" | "body"> & {
    readonly errorCode?: string | undefined;
  },
  sent: Sent,
): string | null {
  const type = "type" in sent.source ? sent.source.type : null;
  if (status >= 200 && status < 300) {
    if (type === "payment_intent.payment_failed") {
      return "The receiver does not handle this type: it acknowledged the event and stored nothing.";
    }
    if (type === "customer.subscription.deleted") {
      return `Next, another subscription: ${command(CREATED, another(sent))}`;
    }
    const next = type && NEXT[type];
    if (!next) return null;
    const seen = type === "invoice.payment_failed"
      ? "The receiver added a row to billing.notifications, and the worker sends it. "
      : "";
    return `${seen}Next: ${command(next, sent)}`;
  }
  const secret = `${settingsPrefix(sent.provider)}SIGNING_SECRET`;
  switch (status) {
    case 400:
    case 422:
      return RECORDED;
    case 401:
      return `The receiver rejected the signature. Do both sides use the same ${secret}? This command reads it from its environment, else from supabase/functions/.env.`;
    case 404:
      return "The receiver's path is /functions/v1/billing-webhook. Check --url.";
    case 500:
      if (body === ERRORS.provider_misconfigured.body) {
        return `The receiver is not configured. Its log names the setting; usually it is ${secret}.`;
      }
      if (
        type !== null && type !== CREATED &&
        CREATION_MISSING.test(errorCode ?? "")
      ) {
        return `If the subscription does not exist yet, create it first: ${
          command(CREATED, sent)
        }`;
      }
      return errorCode === undefined
        ? `The receiver's log has the reason. ${RECORDED}`
        : RECORDED;
    case 503:
      if (errorCode === "record_locked") {
        return "Another session has locked the record. Try again with the same --event; docs/runbook.md says how to find and end that session.";
      }
      return "The receiver cannot reach its database, or is overloaded. Try again with the same --event.";
    default:
      return null;
  }
}

/** Returns what was sent, about a subscription that does not exist yet. */
function another(sent: Sent): Sent {
  const { source, provider } = sent;
  if (!("type" in source)) return sent;
  const { subscription = defaultSubscription(provider) } = source;
  return { ...sent, source: { ...source, subscription: `${subscription}_2` } };
}

function command(
  type: string,
  { provider, url, source }: Sent,
): string {
  const subscription = "type" in source ? source.subscription : undefined;
  return [
    asTyped("trigger"),
    type,
    ...(provider === "a" ? [] : [`--provider ${provider}`]),
    ...(subscription === undefined
      ? []
      : [`--subscription ${shellWord(subscription)}`]),
    ...(url === undefined ? [] : [`--url ${shellWord(url)}`]),
  ].join(" ");
}
