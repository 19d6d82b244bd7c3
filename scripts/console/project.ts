/**
 * The project that the console shows: its database over the Data API, and its
 * worker. Requests are plain, without the typed client: a payload has to pass as
 * the text that it is, and JSON.parse would round its large numbers.
 */
import type { Database } from "../../supabase/functions/_shared/billing/database.types.ts";
import type { Settings } from "../../supabase/functions/billing-worker/handle_wake.ts";
import { asTyped } from "../common/how_started.ts";
import { isLoopback } from "../common/loopback.ts";
import { restHeaders, restRefusal } from "../common/requests.ts";

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

type Values = Readonly<Record<string, string | number | null>>;

/** A call of an SQL function in schema `billing`. */
export interface Call {
  readonly call: string;
  readonly args: Values;
}

/** An update of a table in schema `billing`; a list means "one of". */
export interface Update {
  readonly update: "failed_events" | "notifications";
  readonly set: Values;
  readonly where: Readonly<Record<string, string | readonly string[]>>;
}

/** What an event would come to. */
type Tried = Readonly<
  Database["public"]["Functions"]["billing_try_event"]["Returns"][number]
>;

/** What PostgREST says of an error; the code is its own or Postgres's. */
interface ApiError {
  readonly code?: string;
  readonly message?: string;
  readonly hint?: string | null;
}

/** The database refused a call, or could not be reached. */
export class ProjectError extends Error {
  override name = "ProjectError";

  constructor(
    message: string,
    /** What to do about it. */
    readonly hint: string,
    /** PostgREST's or Postgres's, if there is one. */
    readonly code = "",
    /** Whether what was asked for may have been done. */
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
  const send = (path: string, timeoutMs: number, init: RequestInit) => {
    const signal = AbortSignal.timeout(timeoutMs);
    return fetch(url + path, { ...init, signal, redirect: "error" });
  };

  /** Makes a request of the Data API. Its errors say what to do. */
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
    const refused = (status: number, answer: ApiError, isUnknown: boolean) =>
      new ProjectError(
        ...meaningOf(url, status, answer),
        answer.code,
        !isRead && isUnknown,
      );
    const headers = {
      ...key,
      [isRead ? "accept-profile" : "content-profile"]: "public",
      "content-type": "application/json",
      prefer,
    };
    const target = `/rest/v1/${path}?${new URLSearchParams(query)}`;
    const init = { method, headers, body };
    const response = await send(target, TIME_LIMIT_MS, init).catch((error) => {
      throw refused(0, error, true);
    });
    const data = await response.json().catch(() => undefined);
    if (!response.ok || data === undefined) {
      throw refused(response.status, data ?? {}, response.ok);
    }
    const range = response.headers.get("content-range");
    return { data, count: Number(range?.split("/")[1] ?? 0) };
  }

  return {
    url,

    /** Reads rows. */
    async read<Name extends keyof Views>(name: Name, query: Query) {
      return (await rest<Row<Name>[]>("GET", name, { query })).data;
    },

    /**
     * Reads rows, and counts all that match. It does not count by HEAD: PostgREST
     * 12 then closes the connection without saying so, and the next request fails.
     */
    count<Name extends keyof Views>(name: Name, query: Query) {
      const prefer = "count=exact";
      return rest<Row<Name>[]>("GET", name, { query, prefer });
    },

    /** Calls an SQL function. Returns its answer. */
    async call({ call, args }: Call): Promise<string> {
      const body = JSON.stringify(args);
      return (await rest<string>("POST", `rpc/billing_${call}`, { body })).data;
    },

    /** Asks what an event would come to, without any effect. */
    async tryEvent(event: object): Promise<Tried> {
      const body = JSON.stringify({ event });
      const path = "rpc/billing_try_event";
      return (await rest<[Tried]>("POST", path, { body })).data[0];
    },

    /**
     * Changes rows, also with more conditions. Returns how many.
     *
     * @param body JSON text that is sent instead of the values.
     */
    async update(
      { update, set, where }: Update,
      { more = {}, body = JSON.stringify(set) } = {},
    ): Promise<number> {
      // A single value may have a comma; the lists have words.
      const conditions = Object.entries(where).map(([name, one]) =>
        [name, typeof one === "string" ? `eq.${one}` : `in.(${one})`] as const
      );
      const query = { ...Object.fromEntries(conditions), ...more };
      const { data } = await rest<unknown[]>("PATCH", `billing_${update}`, {
        query: { ...query, select: "event_id" },
        body,
        prefer: "return=representation",
      });
      return data.length;
    },

    /**
     * Asks the worker for the project's settings, of which an older one says less.
     * Undefined if it does not answer.
     */
    async settings(): Promise<Partial<Settings> | undefined> {
      try {
        const path = "/functions/v1/billing-worker?queue=none";
        const init = { method: "POST", headers: key };
        const response = await send(path, WORKER_WAIT_MS, init);
        const { settings = {} } = await response.json();
        return response.ok ? settings : undefined;
      } catch {
        return undefined;
      }
    },

    /**
     * Wakes the worker, and waits a few seconds for its run to end.
     *
     * @returns what to tell the operator; empty if the run is over
     */
    async wakeWorker(queue: "retries" | "notifications"): Promise<string> {
      try {
        const path = `/functions/v1/billing-worker?queue=${queue}`;
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
    },
  };
}

const LOAD =
  'Try again. If it stays so, look at the database\'s load and at its locks: docs/runbook.md, "Locks".';

/** Returns what an answer of the API means, and what to do; 0 is none at all. */
function meaningOf(
  url: string,
  status: number,
  { code = "", message = "", hint }: ApiError,
): readonly [message: string, hint: string] {
  if (status === 0) {
    if (/timed out/.test(message)) {
      return [`${url} did not answer within 10 seconds.`, LOAD];
    }
    return [
      `Cannot reach ${url}.`,
      isLoopback(url)
        ? `Is the local stack running? Start it with: ${asTyped("start")}`
        : "Check SUPABASE_URL and the network. A paused project does not answer either.",
    ];
  }
  if (code === "57014") return ["The database took too long.", LOAD];
  const isMissing = /^(PGRST20[0-5]|42883|42P01|42703|42501)$/.test(code);
  const [text, todo] = restRefusal(isMissing ? 404 : status, url);
  if (isMissing) {
    const otherKey = code === "42501" && !isLoopback(url)
      ? "Check that SUPABASE_SECRET_KEY begins with sb_secret_. If it does: "
      : "";
    const lacks = "This database lacks something that the console needs";
    return [`${lacks} (${code}): ${message}`, otherKey + todo];
  }
  if (/^[0-9A-Z]{5}$/.test(code)) return [message, hint ?? ""];
  return [`Cannot use ${url}: ${text}.`, `${todo}.`];
}
