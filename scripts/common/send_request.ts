/** How a request is sent, replaced in tests. */
export interface RequestTools {
  readonly fetch: typeof globalThis.fetch;
  /** Returns this machine's time in milliseconds since the epoch. */
  readonly clock: () => number;
}

/** A reply, with this machine's times before and after it. */
export interface Reply {
  readonly status: number;
  readonly body: string;
  readonly headers: Headers;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
}

/** Why there was no reply. */
export interface NoReply {
  readonly fault: string;
}

/** The longest wait of the providers; a cold local function takes seconds. */
const TIMEOUT_MS = 30_000;

/** Sends a request. Redirects are not followed, as by the providers. */
export async function sendRequest(
  url: string,
  init: RequestInit,
  { fetch, clock }: RequestTools = { fetch: globalThis.fetch, clock: Date.now },
): Promise<Reply | NoReply> {
  const startedAtMs = clock();
  try {
    const response = await fetch(url, {
      redirect: "manual",
      signal: AbortSignal.timeout(TIMEOUT_MS),
      ...init,
    });
    const { status, headers } = response;
    const body = await response.text();
    return { status, headers, body, startedAtMs, endedAtMs: clock() };
  } catch (error) {
    return { fault: faultOf(error) };
  }
}

function faultOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === "TimeoutError") {
    return `no answer within ${TIMEOUT_MS / 1000} s`;
  }
  // fetch() itself says only "fetch failed".
  const { message } = error.cause instanceof Error ? error.cause : error;
  return message;
}
