import { PostgrestClient } from "@supabase/postgrest-js";
import type { Database } from "./database.types.ts";
import { DeliveryError } from "../errors.ts";
import { databaseError } from "./database_errors.ts";

export type DatabaseClient = PostgrestClient<Database>;

export type DatabaseFunctions = Database["public"]["Functions"];

export type DatabaseAccess = Readonly<{
  supabaseUrl: string;
  secretKey: string;
}>;

type TimeLimit = Readonly<{ timeLimitMs: number }>;

type CallResult<T> = Readonly<{
  data: T | null;
  error: Readonly<{ code?: string; message: string }> | null;
  status: number;
}>;

/**
 * Returns a client that acts as `service_role`. All of supabase-js would slow a cold start:
 * docs/decisions.md.
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
  limit?: TimeLimit,
): Promise<DatabaseFunctions[Name]["Returns"]> {
  return await callDatabase(
    (signal) =>
      (database as PostgrestClient).rpc(name, args).abortSignal(signal),
    limit,
  );
}

/**
 * Makes a call with a time limit, by default 5 s. If the connection breaks, it tries once
 * more within that limit; the ledger makes that safe.
 *
 * @param call Must pass the signal on.
 * @throws {DeliveryError}
 */
export async function callDatabase<T>(
  call: (signal: AbortSignal) => PromiseLike<CallResult<T>>,
  { timeLimitMs }: TimeLimit = { timeLimitMs: 5_000 },
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
  if (data === null) throw badAnswer(`empty answer (HTTP status ${status})`);
  return data;
}

/** Returns the failure of a call whose answer, maybe a proxy's, is unusable. */
export function badAnswer(fault: string): DeliveryError {
  const message = `Database call failed: ${fault}`;
  return new DeliveryError("database_unavailable", message);
}
