import type {
  Alert,
  Channel,
  FailureOpened,
  FailuresResolved,
} from "./channel.ts";
import { toIso, type WebhookMessage, webhookSender } from "./send_webhook.ts";

/**
 * Returns a channel that sends alerts as signed webhooks.
 *
 * @param url The receiver's URL; redirects are not followed.
 * @param options.secret `whsec_` followed by base64.
 * @param options.clock Returns milliseconds since the epoch.
 * @throws {Error} If the secret is malformed.
 */
export function alertChannel(
  url: string,
  { secret, ...options }: {
    secret: string;
    fetch: typeof globalThis.fetch;
    clock: () => number;
  },
): Channel<Alert> {
  const send = webhookSender({ url, secret }, {
    setting: "ALERT_URL",
    ...options,
  });
  return {
    name: "webhook",
    alerts: true,
    destination: alertDestination(url),
    send: (alert) => send(alert.id, message(alert)),
  };
}

/**
 * Returns the destination of alerts. It is another one than that of notifications
 * to the same host, so that a pause of these holds no alert back. Only the host:
 * the rest of the URL may contain a secret.
 */
export function alertDestination(url: string): string {
  return `alerts to ${new URL(url).host}`;
}

function message({ kind, created_at, alert }: Alert): WebhookMessage {
  return {
    type: `billing.${kind}`,
    timestamp: toIso(created_at),
    data: "open" in alert ? openedData(alert) : resolvedData(alert),
  };
}

/** In an order for people to read, which the database does not keep. */
function openedData(alert: FailureOpened) {
  return {
    error_code: alert.error_code,
    error: alert.error,
    open: alert.open,
    new: alert.new,
    first_failed_at: toIso(alert.first_failed_at),
    last_failed_at: toIso(alert.last_failed_at),
    provider: alert.provider,
    event_id: alert.event_id,
    event_type: alert.event_type,
  };
}

function resolvedData({ error_code, resolved, opened_at }: FailuresResolved) {
  return { error_code, resolved, opened_at: toIso(opened_at) };
}
