/**
 * The project that the console shows: its database over the Data API, and its
 * worker. Requests are plain, without the typed client: a payload has to pass as
 * the text that it is, and JSON.parse would round its large numbers.
 *
 * @module
 */
import type { Database } from "../../supabase/functions/_shared/billing/database.types.ts";
import { asTyped } from "../common/how_started.ts";
import { isLoopback } from "../common/loopback.ts";
import { restHeaders } from "../common/rest_headers.ts";
import { restRefusal } from "../common/rest_refusal.ts";

/** Where the project is, and the key to it. */
export interface ProjectAccess {
  /** Without a slash at its end. */
  readonly projectUrl: string;
  readonly secretKey: string;
}

type Views = Database["public"]["Views"];

/** A row of one of the database's windows. */
export type Row<Name extends keyof Views> = Views[Name]["Row"];

/** Columns and conditions in PostgREST's words, such as `id: "eq.sub_1"`. */
export type Query = Readonly<Record<string, string>>;

/** The database refused a call, or could not be reached. */
export class ProjectError extends Error {
  override name = "ProjectError";

  /**
   * @param hint What to do about it.
   * @param code PostgREST's or Postgres's, if there is one.
   * @param isUnknown Whether what was asked for may have been done.
   */
  constructor(
    message: string,
    readonly hint = "",
    readonly code?: string,
    readonly isUnknown = false,
  ) {
    super(message);
  }
}

const TIME_LIMIT_MS = 10_000;
/** A page waits this long for the worker's run. */
const WORKER_WAIT_MS = 8_000;

/** A project that is shown. */
export type Project = ReturnType<typeof openProject>;

/** Opens a project. It makes no request yet. */
export function openProject(
  { projectUrl: url, secretKey }: ProjectAccess,
  { fetch }: { fetch: typeof globalThis.fetch },
) {
  const key = restHeaders(secretKey);
  // A redirect could lead the secret key elsewhere.
  const send = (path: string, timeoutMs: number, init: RequestInit) =>
    fetch(url + path, {
      ...init,
      signal: AbortSignal.timeout(timeoutMs),
      redirect: "error",
    });

  /** Makes a request of the Data API. Its errors say what to do. */
  async function rest<T>(
    method: "GET" | "PATCH" | "POST",
    path: string,
    { body, prefer = "" }: { body?: string; prefer?: string } = {},
  ): Promise<{ data: T; count: number }> {
    const profile = method === "GET" ? "accept-profile" : "content-profile";
    const headers = {
      ...key,
      [profile]: "public",
      "content-type": "application/json",
      prefer,
    };
    const init = { method, headers, ...(body !== undefined && { body }) };
    const isRead = method === "GET";
    const response = await send(`/rest/v1/${path}`, TIME_LIMIT_MS, init)
      .catch((error) => {
        throw refusal(url, 0, error, !isRead);
      });
    const data = await response.json().catch(() => undefined);
    if (!response.ok || data === undefined) {
      throw refusal(url, response.status, data, !isRead && response.ok);
    }
    const range = response.headers.get("content-range");
    return { data, count: Number(range?.split("/")[1] ?? 0) };
  }

  /** Reads rows. */
  async function read<Name extends keyof Views>(
    name: Name,
    query: Query,
  ): Promise<Row<Name>[]> {
    return (await rest<Row<Name>[]>("GET", pathOf(name, query))).data;
  }

  /**
   * Reads rows, and counts all that match. It does not count by HEAD: PostgREST
   * 12 then closes the connection without saying so, and the next request fails.
   */
  function count<Name extends keyof Views>(name: Name, query: Query) {
    const prefer = "count=exact";
    return rest<Row<Name>[]>("GET", pathOf(name, query), { prefer });
  }

  /** Changes rows; `values` may be JSON text. Returns how many. */
  async function update(
    name: keyof Views,
    query: Query,
    values: Readonly<Record<string, unknown>> | string,
  ): Promise<number> {
    const body = typeof values === "string" ? values : JSON.stringify(values);
    const init = { body, prefer: "return=representation" };
    const rows = await rest<unknown[]>("PATCH", pathOf(name, query), init);
    return rows.data.length;
  }

  /** Calls an SQL function. Returns its answer. */
  async function call(
    name: string,
    args: Record<string, unknown>,
  ): Promise<string> {
    const body = JSON.stringify(args);
    return (await rest<string>("POST", `rpc/${name}`, { body })).data;
  }

  /**
   * Wakes the worker, and waits a few seconds for its run to end.
   *
   * @returns what to tell the operator; empty if the run is over
   */
  async function wakeWorker(): Promise<string> {
    try {
      const path = "/functions/v1/billing-worker";
      const init = { method: "POST", headers: key };
      const response = await send(path, WORKER_WAIT_MS, init);
      await response.body?.cancel();
      if (response.ok) return "";
      const doctor = asTyped("doctor");
      return `The worker answered ${response.status}: look at its log, and check the deployment with ${doctor}.`;
    } catch (error) {
      return (error as Error).name === "TimeoutError"
        ? "The worker is still running: reload this page in a moment."
        : "The worker could not be reached. Its schedule, if there is one, wakes it within a minute.";
    }
  }

  return { url, read, count, update, call, wakeWorker };
}

function pathOf(name: string, query: Query): string {
  return `${name}?${new URLSearchParams(query)}`;
}

const LOAD =
  'Try again. If it stays so, look at the database\'s load and at its locks: docs/runbook.md, "Locks".';
const PUSH =
  "supabase db push --remote, then in the SQL editor: notify pgrst, 'reload schema';";

/** Returns what an answer of the database's API means, and what to do. */
function refusal(
  url: string,
  status: number,
  body: { code?: string; message?: string; hint?: string | null } | undefined,
  isUnknown: boolean,
): ProjectError {
  const { code = "", message = "", hint } = body ?? {};
  const isLocal = isLoopback(url);
  const start = asTyped("start");
  const error = (text: string, todo: string) =>
    new ProjectError(text, todo, code, isUnknown);
  if (status === 0 && /timed out/.test(message)) {
    const seconds = TIME_LIMIT_MS / 1000;
    return error(`${url} did not answer within ${seconds} seconds.`, LOAD);
  }
  if (status === 0) {
    return error(
      `Cannot reach ${url}.`,
      isLocal
        ? `Is the local stack running? Start it with: ${start}`
        : "Check SUPABASE_URL and the network. A paused project does not answer either.",
    );
  }
  if (/^(PGRST20[0-5]|42883|42P01|42703|42501)$/.test(code)) {
    const otherKey = code === "42501"
      ? "Check that SUPABASE_SECRET_KEY begins with sb_secret_. If it does, run"
      : "Run";
    return error(
      `This database lacks something that the console needs (${code}): ${message}`,
      isLocal
        ? `Restart the local stack, which applies the migration: ${start}`
        : `${otherKey} ${PUSH}`,
    );
  }
  if (code === "57014") return error("The database took too long.", LOAD);
  if (/^[0-9A-Z]{5}$/.test(code)) return error(message, hint ?? "");
  const [text, todo] = restRefusal(status, url);
  return error(`Cannot use ${url}: ${text}.`, `${todo}.`);
}
