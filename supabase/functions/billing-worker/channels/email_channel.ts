import type { DatabaseClient } from "../../_shared/billing/database/client.ts";
import { databaseError } from "../../_shared/billing/database/database_errors.ts";
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

/** Asks the project's function `billing.account_email` for the address of an account. */
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
 * Returns a channel that sends e-mail through Resend. The notification's id is
 * the idempotency key, so that a repeated attempt sends no second e-mail.
 *
 * @see https://resend.com/docs/api-reference/rate-limit
 */
export function emailChannel(
  { apiKey, from, perSecond, addressOf, clock }: {
    apiKey: string;
    from: string;
    perSecond: number;
    addressOf: AddressOf;
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

      // Loaded only when needed, so that the other channel starts faster.
      const { Resend } = await import("resend");
      const email = { from, to, ...renderEmail(emailTexts(notification)) };
      const { data, error, headers } = await new Resend(apiKey).emails.send(
        email,
        {
          idempotencyKey: notification.id,
          signal: AbortSignal.timeout(ATTEMPT_TIME_LIMIT_MS),
        },
      );
      if (data) return { result: "sent" };

      // The error is null too if a proxy in between answers 502 with `null`.
      const name = error?.name ?? "unknown";
      const reason = error?.message ?? "no reason given";
      const retryAfter = headers?.["retry-after"] ?? null;
      return {
        result: error?.statusCode === 429 ? "limited" : "failed",
        error: `Resend: ${name}: ${reason}`,
        retryAfterSeconds: retryAfterSeconds(retryAfter, clock()),
      };
    } catch (error) {
      return { result: "failed", error: (error as Error).message };
    }
  }

  return { destination: "resend", perSecond, send };
}
