import postgres from "postgres";
import type { Records } from "./targets.ts";

/**
 * Checks that the record of each subscription is as of the newest event that
 * was sent about it.
 *
 * @param name of what was measured
 * @param options.start the time of the first event, in Unix seconds
 * @param options.count how many events were sent, in the order of their file
 * @throws {Error} if one is not
 */
export async function checkApplied(
  name: string,
  { records, subscriptions, start, count }: {
    records: Records;
    subscriptions: readonly string[];
    start: number;
    count: number;
  },
): Promise<void> {
  const sql = postgres(records.databaseUrl, { max: 1 });
  try {
    const rows = await sql.unsafe<{ id: string; at: Date | null }[]>(
      records.query,
    );
    const times = new Map(rows.map(({ id, at }) => [id, at?.getTime()]));
    const missed = subscriptions.slice(0, count).filter((id, i) => {
      const rounds = Math.floor((count - 1 - i) / subscriptions.length);
      return times.get(id) !== (start + rounds) * 1000;
    });
    if (missed.length > 0) {
      throw new Error(
        `Cannot measure: ${name} answered 200, but ${missed.length} subscriptions are not as of their newest event, such as ${
          missed[0]
        }`,
      );
    }
  } finally {
    await sql.end();
  }
}
