import { isLoopback } from "../common/loopback.ts";

/** As long as patient providers wait; a cold local function takes seconds. */
const TIMEOUT_MS = 30_000;

/** The receiver's answer. */
export interface Answer {
  status: number;
  body: string;
}

/**
 * Posts a signed body, as a provider does: redirects are not followed.
 *
 * @throws "Cannot reach ..." where there is no answer, and what to do about it
 */
export async function send(
  url: string,
  { headers, body }: {
    headers: Record<string, string>;
    body: string | Uint8Array<ArrayBuffer>;
  },
): Promise<Answer> {
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: {
        "content-type": "application/json; charset=utf-8",
        ...headers,
      },
      body,
      redirect: "manual",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    return { status: response.status, body: await response.text() };
  } catch (cause) {
    throw new Error(`Cannot reach ${url}: ${reason(url, cause)}`, { cause });
  }
}

function reason(url: string, error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === "TimeoutError") {
    return `no answer within ${TIMEOUT_MS / 1000} s.`;
  }
  // fetch() itself says no more than "fetch failed".
  const { message } = error.cause instanceof Error ? error.cause : error;
  return isLoopback(url) && /refused/i.test(message)
    ? "is the local stack running? Start it with: deno task start"
    : message;
}
