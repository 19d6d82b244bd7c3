import { Webhook } from "standardwebhooks";
import {
  type Attempt,
  ATTEMPT_TIME_LIMIT_MS,
  type Channel,
  type Notification,
} from "./channel.ts";
import { retryAfterSeconds } from "./retry_after.ts";

/**
 * Returns a channel that sends webhooks, signed as the Standard Webhooks
 * specification says. The id is that of the notification, the same for every
 * attempt, so that the receiver can deduplicate.
 *
 * @param url The receiver's URL; redirects are not followed.
 * @param options.secret `whsec_` followed by base64.
 * @param options.clock Returns milliseconds since the epoch.
 * @throws {Error} If the secret is malformed.
 * @see https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
export function webhookChannel(
  url: string,
  { secret, fetch, clock, timeLimitMs = ATTEMPT_TIME_LIMIT_MS }: {
    secret: string;
    fetch: typeof globalThis.fetch;
    clock: () => number;
    timeLimitMs?: number;
  },
): Channel {
  const webhook = new Webhook(secret);

  async function send(notification: Notification): Promise<Attempt> {
    const body = JSON.stringify(message(notification));
    const signedAt = new Date(clock());
    const headers = {
      "content-type": "application/json",
      "webhook-id": notification.id,
      "webhook-timestamp": String(Math.floor(signedAt.getTime() / 1000)),
      "webhook-signature": webhook.sign(notification.id, signedAt, body),
    };
    const signal = AbortSignal.timeout(timeLimitMs);
    try {
      const response = await fetch(url, {
        method: "POST",
        headers,
        body,
        redirect: "manual",
        signal,
      });
      await response.body?.cancel();
      return readAttempt(response, clock());
    } catch (error) {
      return {
        result: "failed",
        error: signal.aborted
          ? `no answer within ${timeLimitMs} ms`
          : describe(error),
      };
    }
  }

  // Only the host: the rest of the URL may contain a secret.
  return { name: "webhook", destination: new URL(url).host, send };
}

function message(
  { account_id, subscription_id, provider, event_id, invoice_id, created_at }:
    Notification,
) {
  return {
    type: "billing.payment_failed",
    timestamp: new Date(created_at).toISOString(),
    data: {
      account_id,
      subscription_id,
      provider,
      event_id,
      ...(invoice_id === null ? {} : { invoice_id }),
    },
  };
}

/**
 * Reads the result from a response. 410: the receiver wants no more
 * notifications. 429: it wants them later. Any other failure may be temporary.
 */
function readAttempt(
  { ok, status, headers }: Response,
  nowMs: number,
): Attempt {
  if (ok) return { result: "sent" };
  if (status === 410) {
    return { result: "dead", error: "the receiver answered 410 Gone" };
  }
  const redirected = status >= 300 && status < 400;
  return {
    result: status === 429 ? "limited" : "failed",
    error: `the receiver answered ${status}` +
      (redirected
        ? ", and redirects are not followed: set NOTIFICATION_URL to the final URL"
        : ""),
    retryAfterSeconds: retryAfterSeconds(headers.get("retry-after"), nowMs),
  };
}

/**
 * Returns why there was no reply. Some runtimes put the reason into the cause.
 * All of them repeat the URL, normalized; it may contain a secret, so its name
 * replaces it.
 */
function describe(error: unknown): string {
  const { message, cause } = error as Error;
  return (cause instanceof Error ? `${message}: ${cause.message}` : message)
    .replaceAll(/https?:\/\/\S+?(?=\)?:?(?:\s|$))/g, "NOTIFICATION_URL");
}
