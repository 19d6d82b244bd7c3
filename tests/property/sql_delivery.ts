/** Deliveries straight to the SQL functions, as the receiver makes them. */
import type { JSONValue, Sql } from "postgres";
import { wireEvent } from "./histories/event_body.ts";
import { recordFailure } from "../support/queues.ts";
import type { HistoryEvent } from "./histories/history.ts";

/** More than a history has deliveries: by then, its creation has had its turn. */
const MOST_IDLE_ROUNDS = 200;

/**
 * Delivers the first few of every queue in one call, then the next, and so on,
 * and what fails again at the end of its queue, as a provider would. The queues
 * must have no subscription in common.
 */
export async function deliverTogether(
  queues: readonly (readonly HistoryEvent[])[],
  { sql, random }: { sql: Sql; random: () => number },
): Promise<void> {
  let waiting = queues.map((queue) => [...queue]);
  let idleRounds = 0;

  while (waiting.length > 0) {
    const sent = waiting.map((queue) =>
      queue.splice(0, Math.ceil(random() ** 2 * 4))
    );
    const batch = sent.flat();
    const failed = await apply(batch, sql);
    for (const event of failed) {
      waiting[sent.findIndex((part) => part.includes(event))]!.push(event);
    }
    waiting = waiting.filter((queue) => queue.length > 0);

    idleRounds = failed.length < batch.length ? 0 : idleRounds + 1;
    if (idleRounds > MOST_IDLE_ROUNDS) {
      throw new Error("Deliveries do not get through");
    }
  }
}

/** Makes one call, and stores and returns the events that failed. */
export async function apply(
  events: readonly HistoryEvent[],
  sql: Sql,
): Promise<HistoryEvent[]> {
  const sent = events.map((event, i) => ({
    place: i + 1,
    ...wireEvent(event),
  }));
  const rows = await sql<{ place: number; error_code: string }[]>`
    select place, error_code
    from public.billing_apply_events(${sql.json(sent as unknown as JSONValue)})
    where outcome = 'failed'`;

  return await Promise.all(rows.map(async ({ place, error_code }) => {
    const event = events[place - 1]!;
    if (error_code === "40P01") throw new Error(`Deadlock at ${event.id}`);
    const failure = { event_id: event.id, error_code, type: event.type };
    await recordFailure(sql, failure).catch((error) => {
      // Another call has the event: the receiver answers 503, too.
      if (error.code !== "55P03") throw error;
    });
    return event;
  }));
}
