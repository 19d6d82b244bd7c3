/** Requests of a project: its REST API and its functions. */
import { asTyped } from "./how_started.ts";
import { isLoopback } from "./loopback.ts";

/** How a request is sent, replaced in tests. */
export interface RequestTools {
  readonly fetch: typeof globalThis.fetch;
  /** Returns this machine's time in milliseconds since the epoch. */
  readonly clock: () => number;
}

/** A reply, with this machine's times before and after it. */
export interface Reply extends Pick<Response, "status" | "headers"> {
  readonly body: string;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
}

/** The longest wait of the providers; a cold local function takes seconds. */
const TIMEOUT_MS = 30_000;

/** Sends a request. Redirects are not followed, as by the providers. */
export async function sendRequest(
  url: string,
  init: RequestInit,
  { fetch, clock }: RequestTools = { fetch: globalThis.fetch, clock: Date.now },
): Promise<Reply | { readonly fault: string }> {
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
    const { name, message, cause } = error as Error;
    if (name === "TimeoutError") {
      return { fault: `no answer within ${TIMEOUT_MS / 1000} s` };
    }
    // fetch() itself says only "fetch failed".
    return { fault: cause instanceof Error ? cause.message : message };
  }
}

/** Returns the headers with which the REST API accepts a secret key, old or new. */
export function restHeaders(secretKey: string): Record<string, string> {
  return secretKey.startsWith("sb_")
    ? { apikey: secretKey }
    : { apikey: secretKey, authorization: `Bearer ${secretKey}` };
}

const START = asTyped("start");

/** What a refusal means; what to do for a hosted project, and for a local one. */
const REFUSALS: Record<number, readonly [string, string, string]> = {
  401: [
    "the REST API refuses the secret key",
    "Use one that begins with sb_secret_ (dashboard, Project Settings, API Keys)",
    `Use the key that ${START} prints`,
  ],
  404: [
    "the receiver's migration is not applied, or the REST API has not noticed it",
    "Run supabase db push --remote, then in the SQL editor: notify pgrst, 'reload schema';",
    `Restart the local stack, which applies the migration: ${START}`,
  ],
  406: [
    "the REST API does not expose schema public",
    "Expose it (dashboard, Project Settings, Data API)",
    'Add "public" to schemas in section [api] of supabase/config.toml',
  ],
  540: [
    "the REST API answered 540: the project is paused",
    "Restore it (dashboard)",
    `Check the URL: ${START} prints the local stack's`,
  ],
};

/** What to do after any other 4xx, and 5xx. */
const OTHERS = [
  [
    "Check the URL: it should be a Supabase project's",
    `Check the URL: it should be the REST API's that ${START} prints`,
  ],
  [
    "Try again. If it stays so, look at the database (dashboard, Reports) and at https://status.supabase.com",
    `Try again. If it stays so, restart the local stack: ${START}`,
  ],
] as const;

/** Returns what a refusal of the REST API at a URL means, and what to do. */
export function restRefusal(status: number, url: string) {
  const [text, hosted, local] = REFUSALS[status] ??
    [`the REST API answered ${status}`, ...OTHERS[status >= 500 ? 1 : 0]];
  return [text, isLoopback(url) ? local : hosted] as const;
}
