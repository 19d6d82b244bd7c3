import { PostgrestClient } from "@supabase/postgrest-js";
import type { Database } from "./database.types.ts";
import type { DatabaseAccess } from "./config.ts";
import { databaseError } from "./database_errors.ts";
import { DeliveryError } from "./errors.ts";

/** A client of the project's database, typed by its schema. */
export type DatabaseClient = PostgrestClient<Database>;

/** What a call through it resolves with. */
interface CallResult<T> {
  readonly data: T | null;
  readonly error: { readonly code?: string; readonly message: string } | null;
  readonly status: number;
}

/**
 * A client that speaks to the project as `service_role`. It is the database
 * part of supabase-js alone: the whole of it takes half of a cold start, for
 * sessions, files and sockets that nothing here uses (docs/decisions.md).
 *
 * @param options.fetch The fetch to use; tests hand in one that fails.
 */
export function createClient(
  { supabaseUrl, secretKey }: DatabaseAccess,
  { fetch }: { fetch: typeof globalThis.fetch },
): DatabaseClient {
  return new PostgrestClient<Database>(`${supabaseUrl}/rest/v1`, {
    // A new key goes as apikey alone; a legacy one is a token as well.
    headers: secretKey.startsWith("sb_")
      ? { apikey: secretKey }
      : { apikey: secretKey, authorization: `Bearer ${secretKey}` },
    fetch,
  });
}

/**
 * Makes one call with a time limit. A connection that broke is tried once more
 * at once, which the ledger makes safe; a call that ran out of time is not.
 *
 * @param call Starts the call; it must pass the signal on.
 * @param options.timeLimitMs For both tries together, in milliseconds.
 * @throws {DeliveryError} With the code that the fault stands for.
 */
export async function callDatabase<T>(
  call: (signal: AbortSignal) => PromiseLike<CallResult<T>>,
  { timeLimitMs }: { timeLimitMs: number },
): Promise<T> {
  const signal = AbortSignal.timeout(timeLimitMs);
  let result = await call(signal);
  if (result.status === 0 && !signal.aborted) result = await call(signal);

  const { data, error, status } = result;
  if (error !== null) {
    const what = error.code
      ? `${error.code}: ${error.message}`
      : signal.aborted
      ? `no answer within ${timeLimitMs} ms`
      : status === 0
      ? error.message
      : `no usable answer (HTTP status ${status})`;
    throw databaseError(error.code, `Database call failed: ${what}`);
  }
  if (data === null) {
    throw new DeliveryError(
      "database_unavailable",
      `Database call failed: empty answer (HTTP status ${status})`,
    );
  }
  return data;
}
