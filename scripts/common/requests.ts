export interface RequestTools {
  /** What tests replace. */
  readonly fetch?: typeof globalThis.fetch;
  readonly clock?: () => number;
  /** The default is how long the most patient provider waits. */
  readonly timeoutMs?: number;
}

export interface Reply extends Pick<Response, "status" | "headers"> {
  readonly body: string;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
}

/** What Deno puts around the reason. */
const CONNECTING =
  /^error sending request .*?\): (?:client error \(\w+\): )?(?:tcp connect error: )?/;
const OS_ERROR = / \(os error \d+\)$/;

/** Sends a request. Like the providers, it does not follow redirects. */
export async function sendRequest(
  url: string,
  init: RequestInit,
  { fetch = globalThis.fetch, clock = Date.now, timeoutMs = 30_000 }:
    RequestTools = {},
): Promise<Reply | { readonly fault: string }> {
  const startedAtMs = clock();
  try {
    const response = await fetch(url, {
      redirect: "manual",
      signal: AbortSignal.timeout(timeoutMs),
      ...init,
    });
    const { status, headers } = response;
    const body = await response.text();
    return { status, headers, body, startedAtMs, endedAtMs: clock() };
  } catch (error) {
    const { name, message, cause } = error as Error;
    if (name === "TimeoutError") {
      return { fault: `no answer within ${timeoutMs / 1000} s` };
    }
    const text = cause instanceof Error ? cause.message : message;
    return { fault: text.replace(CONNECTING, "").replace(OS_ERROR, "") };
  }
}
