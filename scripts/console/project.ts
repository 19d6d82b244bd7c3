import { PostgrestClient } from "@supabase/postgrest-js";
import type { DatabaseClient } from "../../supabase/functions/_shared/billing/database.ts";
import type { Database } from "../../supabase/functions/_shared/billing/database.types.ts";
import { restHeaders } from "../common/rest_headers.ts";
import { restRefusal } from "../common/rest_refusal.ts";
import { asTyped } from "../common/how_started.ts";
import { isLoopback } from "../common/loopback.ts";

/** The project that the console shows. */
export interface Project {
  /** Without a slash at its end. */
  readonly url: string;
  readonly database: DatabaseClient;
  /** Sends a request to the project, with its secret key. */
  request(path: string, init: RequestInit): Promise<Response>;
}

/** Where the project is, and the key to it. */
export interface ProjectAccess {
  readonly projectUrl: string;
  readonly secretKey: string;
}

/** The database refused a call, or could not be reached. */
export class ProjectError extends Error {
  override name = "ProjectError";
  /** What to do about it. */
  readonly hint: string;
  /** PostgREST's or Postgres's, if there is one. */
  readonly code: string | undefined;

  constructor(message: string, hint: string, code?: string) {
    super(message);
    this.hint = hint;
    this.code = code;
  }
}

/** The project may have done what it was asked to, or not. */
export class UnknownOutcome extends ProjectError {
  override name = "UnknownOutcome";
}

/** For one call to the database. */
export const TIME_LIMIT_MS = 10_000;

const LOAD =
  'Try again. If it stays so, look at the database\'s load and at its locks: docs/runbook.md, "Locks".';

const PUSH =
  "supabase db push --remote, then in the SQL editor: notify pgrst, 'reload schema';";

/** Opens a project. It makes no request yet. */
export function openProject(
  { projectUrl, secretKey }: ProjectAccess,
  { fetch }: { fetch: typeof globalThis.fetch },
): Project {
  const headers = restHeaders(secretKey);
  // A redirect could lead the secret key elsewhere.
  const send: typeof globalThis.fetch = (input, init) =>
    fetch(input, { ...init, redirect: "error" });
  return {
    url: projectUrl,
    // Without retries: a person waits, and sooner knows what is wrong.
    database: new PostgrestClient<Database>(`${projectUrl}/rest/v1`, {
      headers,
      fetch: send,
      retry: false,
    }),
    request: (path, init) =>
      send(projectUrl + path, {
        ...init,
        headers: { ...init.headers as Record<string, string>, ...headers },
      }),
  };
}

/** What a call through the client results in. */
interface CallResult<T> {
  readonly data: T | null;
  readonly error: Refusal | null;
  readonly status: number;
  readonly count?: number | null;
}

/** The body of an error that PostgREST answers. */
interface Refusal {
  readonly code?: string;
  readonly message: string;
  readonly hint?: string | null;
}

/**
 * Makes one call to the database.
 *
 * @param call Starts the call; it must pass the signal on.
 * @returns the data, and the count if the call asks for one
 * @throws {ProjectError} It says what to do.
 */
export async function ask<T>(
  { url }: Project,
  call: (signal: AbortSignal) => PromiseLike<CallResult<T>>,
): Promise<{ readonly data: T; readonly count: number }> {
  const { data, error, status, count } = await call(
    AbortSignal.timeout(TIME_LIMIT_MS),
  );
  if (error !== null) throw refusal(error, { status, url });
  return { data: data as T, count: count ?? 0 };
}

/** Returns what an answer of the database's API means, and what to do. */
export function refusal(
  { code, message, hint }: Refusal,
  { status, url }: { status: number; url: string },
): ProjectError {
  if (status === 0 && /timed out/.test(message)) {
    return new ProjectError(
      `${url} did not answer within ${TIME_LIMIT_MS / 1000} seconds.`,
      LOAD,
    );
  }
  if (status === 0) {
    return new ProjectError(
      `Cannot reach ${url}.`,
      isLoopback(url)
        ? `Is the local stack running? Start it with: ${asTyped("start")}`
        : "Check SUPABASE_URL and the network. A paused project does not answer either.",
    );
  }
  if (/^(PGRST20[0-5]|42883|42P01|42703|42501)$/.test(code ?? "")) {
    return new ProjectError(
      `This database lacks something that the console needs (${code}): ${message}`,
      isLoopback(url)
        ? `Restart the local stack, which applies new migrations: ${
          asTyped("start")
        }`
        : code === "42501"
        ? `Check that SUPABASE_SECRET_KEY begins with sb_secret_. If it does, run ${PUSH}`
        : `Run ${PUSH}`,
    );
  }
  if (code === "57014") {
    return new ProjectError(
      "The database took too long.",
      LOAD,
    );
  }
  if (code?.match(/^[0-9A-Z]{5}$/)) {
    return new ProjectError(message, hint ?? "");
  }
  const [text, todo] = restRefusal(status, { isLocal: isLoopback(url) });
  return new ProjectError(`Cannot use ${url}: ${text}.`, `${todo}.`, code);
}
