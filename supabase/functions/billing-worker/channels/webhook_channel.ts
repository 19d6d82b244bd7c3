import { Webhook } from "standardwebhooks";
import type { Alert, Attempt, Channel, Notification } from "./channel.ts";
import { postMessage, type PostOptions } from "./post_message.ts";

/** What a webhook says. JSON leaves out what is undefined. */
interface WebhookMessage {
  readonly type: string;
  /** When it happened, as ISO 8601. */
  readonly timestamp: string;
  readonly data: Readonly<Record<string, unknown>>;
}

interface WebhookOptions extends Omit<PostOptions, "setting"> {
  /** `whsec_` followed by base64. */
  readonly secret: string;
}

/**
 * Returns a channel that sends notifications as signed webhooks to a service of
 * the operator, which knows the account.
 *
 * @param url The receiver's URL; redirects are not followed.
 * @throws {Error} If the secret is malformed.
 */
export function webhookChannel(url: string, options: WebhookOptions): Channel {
  const send = webhookSender(url, "NOTIFICATION_URL", options);
  return {
    name: "webhook",
    // Only the host: the rest of the URL may contain a secret.
    destination: new URL(url).host,
    send: (notification) =>
      send(notification.id, notificationMessage(notification)),
  };
}

/** Returns a channel that sends alerts likewise. */
export function alertChannel(
  url: string,
  options: WebhookOptions,
): Channel<Alert> {
  const send = webhookSender(url, "ALERT_URL", options);
  return {
    name: "webhook",
    destination: alertDestination(url),
    send: (alert) => send(alert.id, alertMessage(alert)),
  };
}

function notificationMessage(notification: Notification): WebhookMessage {
  const { attempt_count, next_payment_attempt } = notification;
  return {
    type: `billing.${notification.kind}`,
    timestamp: toIso(notification.created_at),
    data: {
      account_id: notification.account_id,
      subscription_id: notification.subscription_id,
      provider: notification.provider,
      event_id: notification.event_id,
      occurred_at: toIso(notification.occurred_at),
      invoice_id: notification.invoice_id ?? undefined,
      hosted_invoice_url: notification.hosted_invoice_url ?? undefined,
      amount_due: notification.amount_due ?? undefined,
      currency: notification.currency ?? undefined,
      attempt_count: attempt_count ?? undefined,
      // If the attempts so far are known and no next one is, null says so.
      next_payment_attempt: ifStated(next_payment_attempt) ??
        (attempt_count === null ? undefined : null),
      trial_end: ifStated(notification.trial_end),
    },
  };
}

function ifStated(time: string | null): string | undefined {
  return time ? toIso(time) : undefined;
}

/**
 * Returns the destination of alerts. It is another one than that of notifications
 * to the same host, so that a pause of these holds no alert back. Only the host:
 * the rest of the URL may contain a secret.
 */
export function alertDestination(url: string): string {
  return `alerts to ${new URL(url).host}`;
}

function alertMessage({ kind, created_at, alert }: Alert): WebhookMessage {
  const { error_code } = alert;
  // In an order for people to read, which the database does not keep.
  const data = "open" in alert
    ? {
      error_code,
      error: alert.error,
      open: alert.open,
      new: alert.new,
      first_failed_at: toIso(alert.first_failed_at),
      last_failed_at: toIso(alert.last_failed_at),
      provider: alert.provider,
      event_id: alert.event_id,
      event_type: alert.event_type,
    }
    : {
      error_code,
      resolved: alert.resolved,
      opened_at: toIso(alert.opened_at),
    };
  return { type: `billing.${kind}`, timestamp: toIso(created_at), data };
}

/**
 * Returns a function that posts webhooks, signed as the Standard Webhooks
 * specification says. The id is the same for every attempt, so that the receiver
 * can deduplicate.
 *
 * @see https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
function webhookSender(
  url: string,
  setting: string,
  { secret, ...options }: WebhookOptions,
): (id: string, message: WebhookMessage) => Promise<Attempt> {
  const webhook = new Webhook(secret);
  return (id, message) => {
    const body = JSON.stringify(message);
    const signedAt = new Date(options.clock());
    const headers = {
      "webhook-id": id,
      "webhook-timestamp": String(Math.floor(signedAt.getTime() / 1000)),
      "webhook-signature": webhook.sign(id, signedAt, body),
    };
    return postMessage(url, { headers, body }, { setting, ...options });
  };
}

function toIso(time: string): string {
  return new Date(time).toISOString();
}
