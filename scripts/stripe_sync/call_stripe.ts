import Stripe from "stripe";
import { retry, type Wait } from "./retry.ts";

/** What Stripe answered, and Stripe's clock before it was asked. */
export interface StripeAnswer<T> {
  readonly data: T;
  /**
   * Unix seconds by Stripe's clock, no later than the moment at which Stripe
   * read its data: the Date header, less the time that the call took.
   */
  readonly askedAtSeconds: number;
}

/** Half a minute in all: longer than a rate limit or a deployment lasts. */
const WAITS_MS = [500, 1_000, 2_000, 4_000, 8_000, 16_000];

/** A longer `Retry-After` is cut to this. */
const LONGEST_RETRY_AFTER_MS = 60_000;

/**
 * Makes one call to Stripe, and repeats it if Stripe is too busy (429), fails
 * (5xx) or the connection breaks. The package's own retries are switched off:
 * they leave out 429, `Retry-After`, and answers that break off.
 *
 * @throws What the package threw last, at once if a retry would not help.
 */
export function callStripe<T>(
  call: () => Promise<Stripe.Response<T>>,
  wait: Wait,
): Promise<StripeAnswer<T>> {
  return retry(() => callOnce(call), (error, failures) => {
    const waitMs = WAITS_MS[failures];
    if (waitMs === undefined || !isTransient(error)) return undefined;
    return retryAfterMs(error) ?? waitMs;
  }, wait);
}

async function callOnce<T>(
  call: () => Promise<Stripe.Response<T>>,
): Promise<StripeAnswer<T>> {
  const startedMs = performance.now();
  const data = await call();
  const tookMs = performance.now() - startedMs;
  const { statusCode } = data.lastResponse;
  // The package types them as a plain object; with fetch, they are `Headers`.
  const headers = new Headers(data.lastResponse.headers);
  // The package takes any JSON without `error` for a success, such as what a
  // proxy in front of Stripe says.
  if (statusCode >= 400) {
    const mayPass = statusCode === 429 || statusCode >= 500;
    const Fault = mayPass
      ? Stripe.errors.StripeAPIError
      : Stripe.errors.StripeInvalidRequestError;
    throw new Fault({
      message: `Something in front of Stripe answered ${statusCode}.`,
      statusCode,
      headers: Object.fromEntries(headers),
    });
  }
  // RFC 9110, section 6.6.1: in whole seconds.
  const answeredAtMs = Date.parse(headers.get("date") ?? "");
  if (Number.isNaN(answeredAtMs)) {
    throw new Error(
      "Stripe's answer has no Date header, so its time is unknown. Check for a proxy that removes it.",
    );
  }
  return { data, askedAtSeconds: Math.floor((answeredAtMs - tookMs) / 1000) };
}

function isTransient(error: unknown): boolean {
  return error instanceof Stripe.errors.StripeRateLimitError ||
    error instanceof Stripe.errors.StripeConnectionError ||
    error instanceof Stripe.errors.StripeAPIError;
}

/** RFC 9110, section 10.2.3, in seconds: Stripe sends no date. */
function retryAfterMs(error: unknown): number | undefined {
  if (!(error instanceof Stripe.errors.StripeError)) return undefined;
  const text = error.headers?.["retry-after"] ?? "";
  if (!/^\d{1,9}$/.test(text)) return undefined;
  return Math.min(Number(text) * 1000, LONGEST_RETRY_AFTER_MS);
}
