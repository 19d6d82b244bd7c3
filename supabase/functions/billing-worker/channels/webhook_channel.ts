import { Webhook } from "standardwebhooks";
import type { Alert, Attempt, Channel, Notification } from "./channel.ts";
import { postMessage, type PostOptions } from "./post_message.ts";

interface WebhookOptions extends Omit<PostOptions, "setting"> {
  /** `whsec_` followed by base64. */
  readonly secret: string;
}

/** Returns a channel that sends signed webhooks to a service that knows the accounts. */
export function webhookChannel(url: string, options: WebhookOptions): Channel {
  const send = webhookSender(url, "NOTIFICATION_URL", options);
  return {
    // Only the host: the rest of the URL may contain a secret.
    destination: new URL(url).host,
    send: (message) => send(message, notificationData(message)),
  };
}

export function alertChannel(
  url: string,
  options: WebhookOptions,
): Channel<Alert> {
  const send = webhookSender(url, "ALERT_URL", options);
  return {
    destination: alertDestination(url),
    send: (message) => send(message, alertData(message.alert)),
  };
}

/** JSON leaves out what is undefined. */
function notificationData(notification: Notification) {
  const { attempt_count, next_payment_attempt } = notification;
  return {
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
    next_payment_attempt: toIso(next_payment_attempt) ??
      (attempt_count === null ? undefined : null),
    trial_end: toIso(notification.trial_end),
    still_has_access: notification.still_has_access ?? undefined,
  };
}

/** Differs from the destination of notifications, so that their pause does not delay alerts. */
export function alertDestination(url: string): string {
  return `alerts to ${new URL(url).host}`;
}

/** Orders the fields for people to read; the database does not keep an order. */
function alertData(alert: Alert["alert"]) {
  const { error_code } = alert;
  if ("handlers" in alert) return { error_code, handlers: alert.handlers };
  if ("resolved" in alert) {
    const { resolved, opened_at } = alert;
    return { error_code, resolved, opened_at: toIso(opened_at) };
  }
  if ("missed" in alert) {
    const { provider, missed, types } = alert;
    return { error_code, provider, missed, types };
  }
  if (!("open" in alert)) {
    const { provider, error, last_success_at = null } = alert;
    return {
      error_code,
      provider,
      error,
      last_success_at: toIso(last_success_at),
    };
  }
  const { error, open, provider, event_id, event_type } = alert;
  return {
    error_code,
    error,
    open,
    new: alert.new,
    first_failed_at: toIso(alert.first_failed_at),
    last_failed_at: toIso(alert.last_failed_at),
    provider,
    event_id,
    event_type,
  };
}

/**
 * Returns a function that posts webhooks, signed as Standard Webhooks. The id is the same
 * for every attempt, so that the destination can deduplicate.
 *
 * @see https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
function webhookSender(
  url: string,
  setting: string,
  { secret, ...options }: WebhookOptions,
): (message: Notification | Alert, data: object) => Promise<Attempt> {
  const webhook = new Webhook(secret);
  return ({ id, kind, created_at }, data) => {
    const type = `billing.${kind}`;
    const body = JSON.stringify({ type, timestamp: toIso(created_at), data });
    const signedAt = new Date(options.clock());
    const headers = {
      "webhook-id": id,
      "webhook-timestamp": String(Math.floor(signedAt.getTime() / 1000)),
      "webhook-signature": webhook.sign(id, signedAt, body),
    };
    return postMessage(url, { headers, body }, { setting, ...options });
  };
}

function toIso(time: string | null): string | undefined {
  return time ? new Date(time).toISOString() : undefined;
}
