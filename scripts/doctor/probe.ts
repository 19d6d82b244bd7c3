/** What the checks need of the outside. */
export interface Tools {
  readonly fetch: typeof globalThis.fetch;
  /** The clock of this machine, in milliseconds since the epoch. */
  readonly now: () => number;
}

/** An answer, with this machine's times before and after it. */
export interface Answer {
  readonly status: number;
  readonly body: string;
  readonly headers: Headers;
  readonly startedAt: number;
  readonly endedAt: number;
}

/** Why there was no answer. */
export interface NoAnswer {
  readonly fault: string;
}

/** As long as patient providers wait. */
const TIMEOUT_MS = 30_000;

/** Sends a request, as a provider does: redirects are not followed. */
export async function probe(
  url: string,
  { init, tools }: { init: RequestInit; tools: Tools },
): Promise<Answer | NoAnswer> {
  const startedAt = tools.now();
  try {
    const response = await tools.fetch(url, {
      redirect: "manual",
      signal: AbortSignal.timeout(TIMEOUT_MS),
      ...init,
    });
    const { status, headers } = response;
    const body = await response.text();
    return { status, headers, body, startedAt, endedAt: tools.now() };
  } catch (error) {
    return { fault: faultOf(error) };
  }
}

function faultOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === "TimeoutError") {
    return `no answer within ${TIMEOUT_MS / 1000} s`;
  }
  // fetch() itself says no more than "fetch failed".
  const { message } = error.cause instanceof Error ? error.cause : error;
  return message;
}
