import { callDatabase } from "../../supabase/functions/_shared/billing/database.ts";
import { type PatienceTools, patiently } from "./patiently.ts";

/** For one call, in milliseconds. */
const TIME_LIMIT = 10_000;

/** What Supabase's API gives at most in one answer, unless it is configured. */
export const PAGE = 1_000;

/** Ids go into the address, which has to stay short. */
const IDS_AT_ONCE = 100;

/**
 * Makes one call for rows, with a time limit and with patience.
 *
 * @param call Starts the call; it must pass the signal on.
 * @throws {DeliveryError} Where the database fails for good.
 */
export function readRows<Row>(
  call: Parameters<typeof callDatabase<Row[]>>[0],
  tools: PatienceTools,
): Promise<Row[]> {
  return patiently(
    () => callDatabase(call, { timeLimitMs: TIME_LIMIT }),
    tools,
  );
}

/** Reads what belongs to some ids, some of them at a time. */
export async function inParts<Row>(
  ids: readonly string[],
  read: (part: string[]) => Promise<Row[]>,
): Promise<Row[]> {
  const rows: Row[] = [];
  for (let i = 0; i < ids.length; i += IDS_AT_ONCE) {
    rows.push(...await read(ids.slice(i, i + IDS_AT_ONCE)));
  }
  return rows;
}

/**
 * Reads page by page. By key, not by offset: rows that come or go meanwhile
 * shift nothing.
 */
export async function inPages<Row>(
  read: (last: string) => Promise<Row[]>,
  keyOf: (row: Row) => string,
): Promise<Row[]> {
  const rows: Row[] = [];
  for (let last = "";;) {
    const page = await read(last);
    if (page.length === 0) return rows;
    rows.push(...page);
    last = keyOf(page.at(-1) as Row);
  }
}
