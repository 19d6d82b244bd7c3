import { PostgrestClient } from "@supabase/postgrest-js";
import type { Database } from "./database.types.ts";
import { DeliveryError } from "../errors.ts";
import { databaseError } from "./database_errors.ts";

export type DatabaseClient = PostgrestClient<Database>;

export type DatabaseFunctions = Database["public"]["Functions"];

export interface DatabaseAccess {
  readonly supabaseUrl: string;
  readonly secretKey: string;
}

type CallResult<T> = Readonly<{
  data: T | null;
  error: Readonly<{ code?: string; message: string }> | null;
  status: number;
}>;

/**
 * Returns a client that acts as `service_role`. It is only the database part of
 * supabase-js: loading all of it takes half of a cold start (docs/decisions.md).
 */
export function createClient(
  { supabaseUrl, secretKey }: DatabaseAccess,
  { fetch }: { fetch: typeof globalThis.fetch },
): DatabaseClient {
  return new PostgrestClient<Database>(`${supabaseUrl}/rest/v1`, {
    // A new key is sent as apikey only; a legacy key is also a token.
    headers: secretKey.startsWith("sb_")
      ? { apikey: secretKey }
      : { apikey: secretKey, authorization: `Bearer ${secretKey}` },
    // Sent with every call: a project may list another schema first.
    schema: "public",
    fetch,
  });
}

export async function callFunction<Name extends keyof DatabaseFunctions>(
  database: DatabaseClient,
  name: Name,
  args: DatabaseFunctions[Name]["Args"],
  limit: { timeLimitMs: number },
): Promise<DatabaseFunctions[Name]["Returns"]> {
  return await callDatabase(
    (signal) =>
      (database as PostgrestClient).rpc(name, args).abortSignal(signal),
    limit,
  );
}

/**
 * Makes one call with a time limit. If the connection breaks, it immediately
 * tries once more; the ledger makes that safe. It does not try again after a
 * timeout.
 *
 * @param call Starts the call; it must pass the signal on.
 * @param options.timeLimitMs For both tries together.
 * @throws {DeliveryError}
 */
export async function callDatabase<T>(
  call: (signal: AbortSignal) => PromiseLike<CallResult<T>>,
  { timeLimitMs }: { timeLimitMs: number },
): Promise<T> {
  // AbortSignal.timeout() cannot be stopped: it would fire after each call, which
  // costs a sixth of a delivery's processor time.
  const controller = new AbortController();
  const { signal } = controller;
  const timer = setTimeout(() => controller.abort(), timeLimitMs);

  let result: CallResult<T>;
  try {
    result = await call(signal);
    if (result.status === 0 && !signal.aborted) result = await call(signal);
  } finally {
    clearTimeout(timer);
  }

  const { data, error, status } = result;
  if (error !== null) {
    const { code, message } = error;
    let fault = message;
    if (code) fault = `${code}: ${message}`;
    else if (signal.aborted) fault = `no answer within ${timeLimitMs} ms`;
    else if (status !== 0) fault = `no usable answer (HTTP status ${status})`;
    throw databaseError(code, `Database call failed: ${fault}`, {
      cause: signal.reason,
      status,
    });
  }
  if (data === null) {
    throw new DeliveryError(
      "database_unavailable",
      `Database call failed: empty answer (HTTP status ${status})`,
    );
  }
  return data;
}
