import { type Attempt, ATTEMPT_TIME_LIMIT_MS } from "./channel.ts";

export type PostOptions = Readonly<{
  /** The name of the setting that holds the URL, for errors. */
  setting: string;
  fetch: typeof globalThis.fetch;
  clock: () => number;
  timeLimitMs?: number;
}>;

/** Posts JSON once, within the time limit. It never follows a redirect, and never throws. */
export async function postMessage(
  url: string,
  message: { headers: Readonly<Record<string, string>>; body: string },
  { setting, fetch, clock, timeLimitMs = ATTEMPT_TIME_LIMIT_MS }: PostOptions,
): Promise<Attempt> {
  const signal = AbortSignal.timeout(timeLimitMs);
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json", ...message.headers },
      body: message.body,
      redirect: "manual",
      signal,
    });
    await response.body?.cancel();
    return readAttempt(response, setting, clock());
  } catch (error) {
    return {
      result: "failed",
      error: signal.aborted
        ? `no answer within ${timeLimitMs} ms`
        : describe(error, setting),
    };
  }
}

function readAttempt(
  { ok, status, headers }: Response,
  setting: string,
  nowMs: number,
): Attempt {
  if (ok) return { result: "sent" };
  if (status === 410) {
    return { result: "dead", error: "the receiver answered 410 Gone" };
  }
  const isRedirect = status >= 300 && status < 400;
  const advice = isRedirect
    ? `, and redirects are not followed: set ${setting} to the final URL`
    : "";
  return {
    result: status === 429 ? "limited" : "failed",
    error: `the receiver answered ${status}${advice}`,
    retryAfterSeconds: retryAfterSeconds(headers.get("retry-after"), nowMs),
  };
}

/**
 * Returns why there was no reply. Runtimes repeat the URL, which may contain a secret, so
 * the name of its setting replaces it. Some put the reason into the cause.
 */
function describe(error: unknown, setting: string): string {
  const { message, cause } = error as Error;
  const reason = cause instanceof Error
    ? `${message}: ${cause.message}`
    : message;
  return reason.replaceAll(/https?:\/\/\S+?(?=\)?:?(?:\s|$))/g, setting);
}

/**
 * Reads a Retry-After header: seconds or a date (RFC 9110, section 10.2.3).
 *
 * @returns Whole seconds from now; undefined if it is missing or malformed.
 */
export function retryAfterSeconds(
  header: string | null,
  nowMs: number,
): number | undefined {
  if (header === null) return undefined;
  const seconds = /^\d{1,9}$/.test(header)
    ? Number(header)
    : Math.ceil((Date.parse(header) - nowMs) / 1000);
  return seconds >= 0 ? seconds : undefined;
}
