/**
 * Calls to the project's database, with a time limit and with retries.
 *
 * @module
 */
import { callDatabase } from "../../supabase/functions/_shared/billing/database.ts";
import { DeliveryError } from "../../supabase/functions/_shared/billing/errors.ts";
import { retry, type RetryTools } from "./retry.ts";

/** Starts one call; it must pass the signal on. */
type DatabaseCall<T> = Parameters<typeof callDatabase<T>>[0];

/** A project's database restarts within seconds. */
const WAITS_MS = [500, 1_000, 2_000, 4_000, 8_000];

const TIME_LIMIT_MS = 10_000;

/** The default maximum of rows per answer of Supabase's API. */
export const ROWS_PER_PAGE = 1_000;

/** The ids are part of the URL, which has to stay short. */
const IDS_PER_CALL = 100;

/**
 * Makes a call to the database, and repeats it while the database cannot be
 * reached or is too busy. Events that are applied twice are duplicates the
 * second time.
 *
 * @throws {DeliveryError} If the last try fails, or if a retry would not help.
 */
export function retryDatabase<T>(
  call: () => Promise<T>,
  tools: RetryTools,
): Promise<T> {
  return retry(
    call,
    (error, failures) => isTransient(error) ? WAITS_MS[failures] : undefined,
    tools,
  );
}

/** Returns whether a failure of the database passes by itself. */
export function isTransient(error: unknown): error is DeliveryError {
  return error instanceof DeliveryError &&
    (error.code === "database_unavailable" || error.code === "record_locked");
}

/**
 * Makes one call to the tables, with a time limit and with retries.
 *
 * @throws {DeliveryError} If the last try fails, or if a retry would not help.
 */
export function callTables<T>(
  call: DatabaseCall<T>,
  tools: RetryTools,
): Promise<T> {
  return retryDatabase(
    () => callDatabase(call, { timeLimitMs: TIME_LIMIT_MS }),
    tools,
  );
}

/** Reads the rows of some ids, a limited number per call. */
export async function readByIds<Row>(
  ids: readonly string[],
  read: (part: string[]) => DatabaseCall<Row[]>,
  tools: RetryTools,
): Promise<Row[]> {
  const rows: Row[] = [];
  for (let i = 0; i < ids.length; i += IDS_PER_CALL) {
    const part = ids.slice(i, i + IDS_PER_CALL);
    rows.push(...await callTables(read(part), tools));
  }
  return rows;
}

/**
 * Reads page by page. By key, not by offset: rows that are added or deleted in
 * between shift nothing.
 */
export async function readPages<Row>(
  read: (last: string) => DatabaseCall<Row[]>,
  keyOf: (row: Row) => string,
  tools: RetryTools,
): Promise<Row[]> {
  const rows: Row[] = [];
  for (let last = "";;) {
    const page = await callTables(read(last), tools);
    if (page.length === 0) return rows;
    rows.push(...page);
    last = keyOf(page.at(-1) as Row);
  }
}
