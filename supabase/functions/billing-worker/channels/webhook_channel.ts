import { Webhook } from "standardwebhooks";
import {
  type Attempt,
  ATTEMPT_TIME_LIMIT_MS,
  type Channel,
  type Notification,
} from "./channel.ts";
import { retryAfterSeconds } from "./retry_after.ts";

/**
 * Notifications as a webhook of our own, signed by the Standard Webhooks
 * specification. The id is the notification's, the same for every attempt, so
 * that the receiver can dedupe.
 *
 * @param url Where they go; redirects are not followed.
 * @param options.secret `whsec_` and base64.
 * @throws {Error} Where the secret is not of that form.
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
      return judge(response, clock());
    } catch (error) {
      return {
        result: "failed",
        error: signal.aborted
          ? `no answer within ${timeLimitMs} ms`
          : reason(error),
      };
    }
  }

  // The host alone: the rest of the URL may hold a secret.
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
 * 410 means that the receiver wants no more, 429 that it wants them later;
 * anything else may pass.
 */
function judge({ ok, status, headers }: Response, nowMs: number): Attempt {
  if (ok) return { result: "sent" };
  if (status === 410) {
    return { result: "dead", error: "the receiver answered 410 Gone" };
  }
  const redirected = status >= 300 && status < 400;
  return {
    result: status === 429 ? "limited" : "failed",
    error: `the receiver answered ${status}` +
      (redirected ? ", and redirects are not followed" : ""),
    retryAfterSeconds: retryAfterSeconds(headers.get("retry-after"), nowMs),
  };
}

/**
 * Why no answer came. Some runtimes put that into the cause; all of them name
 * the URL in its normal form, and it may hold a secret.
 */
function reason(error: unknown): string {
  const { message, cause } = error as Error;
  return (cause instanceof Error ? `${message}: ${cause.message}` : message)
    .replaceAll(/https?:\/\/\S+?(?=\)?:?(?:\s|$))/g, "NOTIFICATION_URL");
}
