import { PostgrestClient } from "@supabase/postgrest-js";
import type { DatabaseClient } from "../../supabase/functions/_shared/billing/database.ts";
import type { Database } from "../../supabase/functions/_shared/billing/database.types.ts";
import { restHeaders } from "../common/rest_headers.ts";
import { type Refusal, refusal, TIME_LIMIT_MS } from "./refusal.ts";

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
      schema: "public",
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
