import type { Channel, Notification } from "./channel.ts";
import { toIso, type WebhookMessage, webhookSender } from "./send_webhook.ts";

/**
 * Returns a channel that sends a signed webhook to a service of the operator,
 * which knows the account.
 *
 * @param url The receiver's URL; redirects are not followed.
 * @param options.secret `whsec_` followed by base64.
 * @param options.clock Returns milliseconds since the epoch.
 * @throws {Error} If the secret is malformed.
 */
export function webhookChannel(
  url: string,
  { secret, ...options }: {
    secret: string;
    fetch: typeof globalThis.fetch;
    clock: () => number;
    timeLimitMs?: number;
  },
): Channel {
  const send = webhookSender({ url, secret }, {
    setting: "NOTIFICATION_URL",
    ...options,
  });
  return {
    name: "webhook",
    // Only the host: the rest of the URL may contain a secret.
    destination: new URL(url).host,
    send: (notification) => send(notification.id, message(notification)),
  };
}

/**
 * Returns the message. JSON leaves out what is undefined, which is what the event
 * did not state.
 */
function message(notification: Notification): WebhookMessage {
  const { account_id, subscription_id, provider, event_id } = notification;
  return {
    type: "billing.payment_failed",
    timestamp: toIso(notification.created_at),
    data: {
      account_id,
      subscription_id,
      provider,
      event_id,
      invoice_id: notification.invoice_id ?? undefined,
      hosted_invoice_url: notification.hosted_invoice_url ?? undefined,
      amount_due: notification.amount_due ?? undefined,
      currency: notification.currency ?? undefined,
      attempt_count: notification.attempt_count ?? undefined,
      next_payment_attempt: nextAttempt(notification),
    },
  };
}

/** If the attempts so far are known and no next one is, null says so. */
function nextAttempt(
  { attempt_count, next_payment_attempt }: Notification,
): string | null | undefined {
  if (next_payment_attempt) return toIso(next_payment_attempt);
  return attempt_count === null ? undefined : null;
}
