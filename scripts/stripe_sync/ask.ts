import Stripe from "stripe";

/** What asking the provider needs of the outside. */
export interface AskTools {
  /** Waits so many milliseconds; rejects where the command is interrupted. */
  readonly sleep: (milliseconds: number) => Promise<void>;
  /** Told before each wait, for people. */
  readonly onWait: (text: string) => void;
}

/** An answer, and the provider's clock before it was asked. */
export interface Answer<T> {
  readonly data: T;
  /**
   * Unix seconds by the provider's clock, no later than the moment at which
   * the provider looked: its Date header, less the time that the call took.
   */
  readonly askedAt: number;
}

/** Half a minute in all: longer than a rate limit or a deployment lasts. */
const WAITS_MS = [500, 1_000, 2_000, 4_000, 8_000, 16_000];

/** A provider that wants more patience than this has to be asked another day. */
const LONGEST_RETRY_AFTER_MS = 60_000;

/**
 * Makes one call, and makes it again where the provider is too busy (429), has
 * a fault of its own (5xx) or the connection breaks. The package's own retries
 * are switched off: they leave out 429, Retry-After, and answers that break off.
 *
 * @throws What the package threw last, or at once what another try cannot mend.
 */
export async function ask<T>(
  call: () => Promise<Stripe.Response<T>>,
  { sleep, onWait }: AskTools,
): Promise<Answer<T>> {
  for (const wait of WAITS_MS) {
    try {
      return await askOnce(call);
    } catch (error) {
      if (!passesByItself(error)) throw error;
      const milliseconds = retryAfter(error) ?? wait;
      onWait(
        `${(error as Error).message.trim()} Again in ${milliseconds / 1000} s.`,
      );
      await sleep(milliseconds);
    }
  }
  return await askOnce(call);
}

async function askOnce<T>(
  call: () => Promise<Stripe.Response<T>>,
): Promise<Answer<T>> {
  const started = performance.now();
  const data = await call();
  const tookSeconds = (performance.now() - started) / 1000;
  // RFC 9110, section 6.6.1: in whole seconds.
  // A plain object by its type; with fetch, it is that of the Response.
  const headers = new Headers(data.lastResponse.headers);
  const date = Date.parse(headers.get("date") ?? "") / 1000;
  if (Number.isNaN(date)) {
    throw new Error(
      "Cannot tell the provider's time: its answer has no Date header. Is something in between?",
    );
  }
  return { data, askedAt: Math.floor(date - tookSeconds) };
}

function passesByItself(error: unknown): boolean {
  return error instanceof Stripe.errors.StripeRateLimitError ||
    error instanceof Stripe.errors.StripeConnectionError ||
    error instanceof Stripe.errors.StripeAPIError;
}

/** RFC 9110, section 10.2.3, in seconds: Stripe sends no date. */
function retryAfter(error: unknown): number | undefined {
  if (!(error instanceof Stripe.errors.StripeError)) return undefined;
  const text = error.headers?.["retry-after"] ?? "";
  if (!/^\d{1,9}$/.test(text)) return undefined;
  return Math.min(Number(text) * 1000, LONGEST_RETRY_AFTER_MS);
}
