import Stripe from "stripe";
import { DeliveryError } from "../../supabase/functions/_shared/billing/errors.ts";

/** Waits this many milliseconds, and shows why if a reason is given. */
export type Wait = (milliseconds: number, reason?: string) => Promise<void>;

/** In total, longer than a rate limit, a deployment or a restart lasts. */
const WAITS_MS = [500, 1_000, 2_000, 4_000, 8_000, 16_000];

/** A longer `Retry-After` is cut to this. */
const LONGEST_RETRY_AFTER_MS = 60_000;

/** Repeats a call to Stripe or the database after failures that may pass. */
export async function retry<T>(call: () => Promise<T>, wait: Wait): Promise<T> {
  for (const usualMs of WAITS_MS) {
    try {
      return await call();
    } catch (error) {
      if (!isTransient(error)) throw error;
      const waitMs = retryAfterMs(error) ?? usualMs;
      const reason = error.message.trim().replace(/\.$/, "");
      await wait(waitMs, `${reason}. Retrying in ${waitMs / 1000} s.`);
    }
  }
  return await call();
}

export function isTransient(error: unknown): error is Error {
  return error instanceof DeliveryError
    ? error.code === "database_unavailable" || error.code === "record_locked"
    : error instanceof Stripe.errors.StripeRateLimitError ||
      error instanceof Stripe.errors.StripeConnectionError ||
      error instanceof Stripe.errors.StripeAPIError;
}

/** Stripe sends seconds, not a date. */
function retryAfterMs(error: Error): number | undefined {
  if (!(error instanceof Stripe.errors.StripeError)) return undefined;
  const text = error.headers?.["retry-after"] ?? "";
  if (!/^\d{1,9}$/.test(text)) return undefined;
  return Math.min(Number(text) * 1000, LONGEST_RETRY_AFTER_MS);
}
