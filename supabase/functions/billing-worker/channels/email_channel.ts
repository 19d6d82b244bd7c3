import type { DatabaseClient } from "../../_shared/billing/database/client.ts";
import { databaseError } from "../../_shared/billing/database/database_errors.ts";
import { isRecord } from "../../_shared/billing/events/fields.ts";
import {
  type Attempt,
  ATTEMPT_TIME_LIMIT_MS,
  type Channel,
  type Notification,
} from "./channel.ts";
import { emailTexts } from "./email_texts.ts";
import { renderEmail } from "./render_email.ts";
import { retryAfterSeconds } from "./post_message.ts";

export type AddressOf = (accountId: string) => Promise<string | null>;

const ADDRESS_TIME_LIMIT_MS = 5_000;

/** Returns what the app's function `billing.account_email` says. */
export async function accountEmail(
  database: DatabaseClient,
  accountId: string,
): Promise<string | null> {
  const { data, error } = await database
    .rpc("billing_account_email", { account_id: accountId })
    .abortSignal(AbortSignal.timeout(ADDRESS_TIME_LIMIT_MS));
  if (error !== null) {
    throw databaseError(error.code, `account_email failed: ${error.message}`);
  }
  return data;
}

/**
 * Returns a channel that sends e-mail through Resend. The notification's id is the
 * idempotency key.
 *
 * @see https://resend.com/docs/api-reference/emails/send-email
 */
export function emailChannel(
  {
    url,
    apiKey,
    from,
    perSecond,
    addressOf,
    fetch,
    clock,
  }: {
    url: string;
    apiKey: string;
    from: string;
    perSecond: number;
    addressOf: AddressOf;
    fetch: typeof globalThis.fetch;
    clock: () => number;
  },
): Channel {
  async function send(notification: Notification): Promise<Attempt> {
    try {
      const to = await addressOf(notification.account_id);
      if (to === null) {
        return {
          result: "undeliverable",
          error:
            "billing.account_email returns no address for this account: add the address, or change that function",
        };
      }

      const email = { from, to, ...renderEmail(emailTexts(notification)) };
      const response = await fetch(`${url}/emails`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${apiKey}`,
          "content-type": "application/json",
          "idempotency-key": notification.id,
        },
        body: JSON.stringify(email),
        redirect: "manual",
        signal: AbortSignal.timeout(ATTEMPT_TIME_LIMIT_MS),
      });
      return await readAnswer(response, clock());
    } catch (error) {
      return { result: "failed", error: (error as Error).message };
    }
  }

  return { destination: "resend", perSecond, send };
}

async function readAnswer(response: Response, nowMs: number): Promise<Attempt> {
  const { ok, status, headers } = response;
  // A proxy in between may answer with anything.
  const answer: unknown = await response.json().catch(() => null);
  if (ok && isRecord(answer)) return { result: "sent" };

  const { name, message } = Object(answer);
  const reason = name === undefined
    ? `answered ${status}`
    : `${name}: ${message ?? "no reason given"}`;
  return {
    result: status === 429 ? "limited" : "failed",
    error: `Resend: ${reason}`,
    retryAfterSeconds: retryAfterSeconds(headers.get("retry-after"), nowMs),
  };
}
