/**
 * Sends requests, above all to a project's REST API: without the typed client, because
 * a payload must keep its exact text. JSON.parse would round large numbers.
 */
import type { Database } from "../../supabase/functions/_shared/billing/database/database.types.ts";
import type { Settings } from "../../supabase/functions/billing-worker/index.ts";
import { asTyped } from "./environment.ts";
import { isLoopback } from "./loopback.ts";

export interface ProjectAccess {
  /** Without a slash at its end. */
  readonly projectUrl: string;
  readonly secretKey: string;
}

export type Views = Database["public"]["Views"];

export type Row<Name extends keyof Views> = Views[Name]["Row"];

/** Columns and conditions in PostgREST's words, such as `id: "eq.sub_1"`. */
export type Query = Readonly<Record<string, string>>;

interface ApiError {
  readonly code?: string;
  readonly message?: string;
  readonly hint?: string | null;
}

/** Its message ends with what to do. */
export class ProjectError extends Error {
  override name = "ProjectError";

  constructor(
    message: string,
    readonly code = "",
    /** Whether the change may have been made. */
    readonly isUnknown = false,
  ) {
    super(message);
  }
}

export function restHeaders(secretKey: string): Record<string, string> {
  return secretKey.startsWith("sb_")
    ? { apikey: secretKey }
    : { apikey: secretKey, authorization: `Bearer ${secretKey}` };
}

export type Api = ReturnType<typeof openApi>;

/** Each error of the result is a {@linkcode ProjectError}. */
export function openApi(
  { projectUrl: url, secretKey }: ProjectAccess,
  tools?: RequestTools,
) {
  async function rest<T>(
    method: "GET" | "PATCH" | "POST",
    path: string,
    { query = {}, body = null, prefer = "" }: {
      query?: Query;
      body?: string | null;
      prefer?: string;
    },
  ): Promise<{ data: T; count: number }> {
    const isRead = method === "GET";
    const target = `${url}/rest/v1/${path}?${new URLSearchParams(query)}`;
    const reply = await sendRequest(target, {
      method,
      headers: {
        ...restHeaders(secretKey),
        [isRead ? "accept-profile" : "content-profile"]: "public",
        "content-type": "application/json",
        prefer,
      },
      body,
    }, tools);

    if ("fault" in reply) {
      const todo = isLoopback(url)
        ? `Is the local stack running? Start it with: ${asTyped("start")}`
        : "Check the project's URL (SUPABASE_URL or --project-url) and the network. A paused project does not answer either.";
      const text = `Cannot reach ${url}: ${reply.fault}. ${todo}`;
      throw new ProjectError(text, "", !isRead);
    }

    const isDone = reply.status >= 200 && reply.status < 300;
    const data = parse(reply.body);
    if (!isDone || data === undefined) {
      const error: ApiError = data ?? {};
      const text = meaningOf(url, reply.status, error);
      throw new ProjectError(text, error.code, !isRead && isDone);
    }

    const range = reply.headers.get("content-range");
    return { data, count: Number(range?.split("/")[1] ?? 0) };
  }

  return {
    rest,

    async call<T>(name: string, args: object): Promise<T> {
      const body = JSON.stringify(args);
      return (await rest<T>("POST", `rpc/billing_${name}`, { body })).data;
    },

    async read<Name extends keyof Views>(name: Name, query: Query) {
      return (await rest<Row<Name>[]>("GET", name, { query })).data;
    },
  };
}

/** Returns the settings in a worker's answer; undefined if it is not 200. */
export function settingsOf(
  { status, body }: Pick<Reply, "status" | "body">,
): Partial<Settings> | undefined {
  const answer = status === 200 ? parse(body) : undefined;
  return answer && (answer.settings ?? {});
}

function parse(json: string) {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

const LOCAL = `Use the URL and the key that ${
  asTyped("start")
} prints. It applies the migration when it starts.`;

/** What each status means, and what to do if the project is hosted. */
const REFUSALS: Record<number, readonly [string, string]> = {
  401: [
    "the REST API refuses the secret key",
    "Use one that begins with sb_secret_ (dashboard, Project Settings, API Keys).",
  ],
  404: [
    "the receiver's migration is not applied, or the REST API has not noticed it",
    "Check that the key begins with sb_secret_. Run supabase db push --remote, then in the SQL editor: notify pgrst, 'reload schema';",
  ],
  406: [
    "the REST API does not expose schema public",
    "Expose it (dashboard, Project Settings, Data API).",
  ],
  540: [
    "the REST API answered 540: the project is paused",
    "Restore it (dashboard).",
  ],
};

function meaningOf(
  url: string,
  status: number,
  { code = "", message = "", hint }: ApiError,
): string {
  if (code === "57014") {
    return 'The database took too long. Try again. If that fails too, look at its load and its locks: docs/operate.md, "Locks".';
  }

  const isMissing = /^(PGRST20[0-5]|42883|42P01|42703|42501)$/.test(code);
  if (!isMissing && /^[0-9A-Z]{5}$/.test(code)) {
    return `${message} ${hint ?? ""}`.trim();
  }

  const [text, hosted] = REFUSALS[isMissing ? 404 : status] ?? [
    `the REST API answered ${status}`,
    "Check that the URL is a Supabase project's, and look at its database (dashboard, Reports).",
  ];
  const why = isMissing ? `${text} (${code}: ${message})` : text;
  return `Cannot use ${url}: ${why}. ${isLoopback(url) ? LOCAL : hosted}`;
}

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
