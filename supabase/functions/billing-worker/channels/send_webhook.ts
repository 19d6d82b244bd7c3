import { Webhook } from "standardwebhooks";
import type { Attempt } from "./channel.ts";
import { postMessage, type PostOptions } from "./post_message.ts";

/** What a webhook says. JSON leaves out what is undefined. */
export interface WebhookMessage {
  readonly type: string;
  /** When it happened, as ISO 8601. */
  readonly timestamp: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/**
 * Returns a function that posts webhooks, signed as the Standard Webhooks
 * specification says. The id is the same for every attempt, so that the receiver
 * can deduplicate.
 *
 * @param url The receiver's URL; redirects are not followed.
 * @param secret `whsec_` followed by base64.
 * @throws {Error} If the secret is malformed.
 * @see https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
export function webhookSender(
  { url, secret }: { url: string; secret: string },
  options: PostOptions,
): (id: string, message: WebhookMessage) => Promise<Attempt> {
  const webhook = new Webhook(secret);
  return async (id, message) => {
    const body = JSON.stringify(message);
    const signedAt = new Date(options.clock());
    const headers = {
      "webhook-id": id,
      "webhook-timestamp": String(Math.floor(signedAt.getTime() / 1000)),
      "webhook-signature": webhook.sign(id, signedAt, body),
    };
    return await postMessage(url, { headers, body }, options);
  };
}

/** Returns a time of PostgREST as ISO 8601. */
export function toIso(time: string): string {
  return new Date(time).toISOString();
}
