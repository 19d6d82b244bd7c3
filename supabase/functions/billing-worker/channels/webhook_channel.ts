import { fromBase64, toBase64 } from "../../_shared/billing/events/fields.ts";
import type { Alert, Attempt, Channel, Notification } from "./channel.ts";
import { postMessage, type PostOptions } from "./post_message.ts";

interface WebhookOptions extends PostOptions {
  /** `whsec_` followed by base64. */
  readonly secret: string;
}

/** Returns a channel that sends signed webhooks to a service that knows the accounts. */
export function webhookChannel(url: string, options: WebhookOptions): Channel {
  return {
    // Only the host: the rest of the URL may contain a secret.
    destination: new URL(url).host,
    send: webhookSender(url, "NOTIFICATION_URL", options),
  };
}

export function alertChannel(
  url: string,
  options: WebhookOptions,
): Channel<Alert> {
  return {
    destination: alertDestination(url),
    send: webhookSender(url, "ALERT_URL", options),
  };
}

/** The fields of a message, in an order for people to read. */
const NOTIFICATION_FIELDS = `
  account_id subscription_id provider event_id occurred_at invoice_id
  hosted_invoice_url amount_due currency attempt_count next_payment_attempt
  trial_end still_has_access`;
const ALERT_FIELDS = `
  error_code error open new first_failed_at last_failed_at provider event_id
  event_type missed types last_success_at resolved opened_at handlers`;

const TIME = /_at$|^next_payment_attempt$|^trial_end$/;

function dataOf(message: Notification | Alert) {
  if ("alert" in message) return pick(message.alert, ALERT_FIELDS);
  const { attempt_count, next_payment_attempt } = message;
  const isLast = attempt_count !== null && next_payment_attempt === null;
  return {
    ...pick(message, NOTIFICATION_FIELDS),
    ...(isLast && { next_payment_attempt }),
  };
}

/** Returns the fields that are not null; times in ISO 8601. */
function pick(values: object, names: string) {
  const fields = new Map<string, unknown>(Object.entries(values));
  return Object.fromEntries(
    names.trim().split(/\s+/).flatMap((name) => {
      const value = fields.get(name) ?? undefined;
      if (value === undefined) return [];
      return [[name, TIME.test(name) ? toIso(String(value)) : value]];
    }),
  );
}

/** Differs from that of notifications, so that their pause does not delay alerts. */
export function alertDestination(url: string): string {
  return `alerts to ${new URL(url).host}`;
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
): (message: Notification | Alert) => Promise<Attempt> {
  const key = crypto.subtle.importKey(
    "raw",
    fromBase64(secret.slice("whsec_".length)),
    { name: "HMAC", hash: "SHA-256" },
    false,
    ["sign"],
  );

  return async function send(message) {
    const { id, kind, created_at } = message;
    const body = JSON.stringify({
      type: `billing.${kind}`,
      timestamp: toIso(created_at),
      data: dataOf(message),
    });

    const seconds = Math.floor(options.clock() / 1000);
    const signed = new TextEncoder().encode(`${id}.${seconds}.${body}`);
    const mac = await crypto.subtle.sign("HMAC", await key, signed);
    const headers = {
      "webhook-id": id,
      "webhook-timestamp": `${seconds}`,
      "webhook-signature": `v1,${toBase64(new Uint8Array(mac))}`,
    };
    return await postMessage({ url, setting, headers, body }, options);
  };
}

function toIso(time: string): string {
  return new Date(time).toISOString();
}
