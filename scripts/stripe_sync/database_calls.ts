/**
 * Calls to the project's database, with a time limit and with retries.
 *
 * @module
 */
import { callDatabase } from "../../supabase/functions/_shared/billing/database.ts";
import { DeliveryError } from "../../supabase/functions/_shared/billing/errors.ts";
import { retry, type Wait } from "./retry.ts";

/** A query of the client that was not sent yet. */
interface Query<T> {
  abortSignal(
    signal: AbortSignal,
  ): ReturnType<Parameters<typeof callDatabase<T>>[0]>;
}

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
  wait: Wait,
): Promise<T> {
  return retry(
    call,
    (error, failures) => isTransient(error) ? WAITS_MS[failures] : undefined,
    wait,
  );
}

/** Returns whether a failure of the database passes by itself. */
export function isTransient(error: unknown): error is DeliveryError {
  return error instanceof DeliveryError &&
    (error.code === "database_unavailable" || error.code === "record_locked");
}

/**
 * Sends a query, with a time limit and with retries.
 *
 * @param query Builds it; each try sends a new one.
 * @throws {DeliveryError} If the last try fails, or if a retry would not help.
 */
export function send<T>(query: () => Query<T>, wait: Wait): Promise<T> {
  return retryDatabase(
    () =>
      callDatabase((signal) => query().abortSignal(signal), {
        timeLimitMs: TIME_LIMIT_MS,
      }),
    wait,
  );
}

/** Reads the rows of some ids, a limited number per call. */
export async function readByIds<Row>(
  ids: readonly string[],
  query: (part: string[]) => Query<Row[]>,
  wait: Wait,
): Promise<Row[]> {
  const rows: Row[] = [];
  for (let i = 0; i < ids.length; i += IDS_PER_CALL) {
    rows.push(...await send(() => query(ids.slice(i, i + IDS_PER_CALL)), wait));
  }
  return rows;
}

/**
 * Reads page by page. By key, not by offset: rows that are added or deleted in
 * between shift nothing.
 */
export async function readPages<Row>(
  query: (last: string) => Query<Row[]>,
  keyOf: (row: Row) => string,
  wait: Wait,
): Promise<Row[]> {
  const rows: Row[] = [];
  for (let last = "";;) {
    const page = await send(() => query(last), wait);
    if (page.length === 0) return rows;
    rows.push(...page);
    last = keyOf(page.at(-1) as Row);
  }
}
