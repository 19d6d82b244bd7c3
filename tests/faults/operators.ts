/**
 * Operators in the SQL editor: while events come in, they do what the runbook
 * says, and what it does not.
 *
 * @module
 */
import type { Sql } from "postgres";
import type { JSONValue } from "postgres";

/** An event that only a repair gets applied as it should be. */
export interface Repair {
  readonly id: string;
  readonly payload: object;
}

/** Whom they disturb. */
export interface Disturbed {
  /** Subscriptions that somebody locks. */
  readonly subscriptions: string[];
  /** What waits to be repaired; a repair takes it out. */
  readonly repairs: Repair[];
  /** Ids that begin so are resolved by hand. */
  readonly resolvable: string;
}

/** Answers undefined if there was nothing to do. */
type Action = (sql: Sql) => Promise<unknown>;

/**
 * Each action with the pause after it, in milliseconds. Each has a connection
 * of its own, so that no one of them waits for another.
 */
export function actions(
  { subscriptions, repairs, resolvable }: Disturbed,
  random: () => number,
): Record<string, { readonly action: Action; readonly pauseMs: number }> {
  // Mostly shorter than the receiver tries, and now and then longer.
  const hold = () => pause(random() < 0.1 ? 2_000 : 20 + random() * 300);

  return {
    "retries of all": {
      pauseMs: 150,
      action: (sql) => sql`select billing.retry_failed_events()`,
    },
    "retries of one": {
      pauseMs: 20,
      action: async (sql) => {
        const [row] = await sql`
          select provider, event_id from billing.open_failures
          order by random() limit 1`;
        if (row === undefined) return;
        return await sql`
          select billing.retry_failed_event(
            ${row["event_id"]}, of_provider => ${row["provider"]})`;
      },
    },
    resolves: {
      pauseMs: 100,
      action: async (sql) => {
        const [row] = await sql`
          select event_id from billing.open_failures
          where starts_with(event_id, ${resolvable})
          order by random() limit 1`;
        if (row === undefined) return;
        return await sql`
          select billing.resolve_failed_event(${
          row["event_id"]
        }, 'a test', 'me')`;
      },
    },
    // As in the SQL editor, where several statements are one transaction.
    repairs: {
      pauseMs: 10,
      action: async (sql) => {
        const [repair] = repairs;
        if (repair === undefined) return;
        const repaired = await sql.begin(async (editor) => {
          const rows = await editor`
            update billing.failed_events
            set payload = ${editor.json(repair.payload as JSONValue)}
            where event_id = ${repair.id} and resolved_at is null
            returning event_id`;
          await pause(random() * 20);
          await editor`select billing.retry_failed_events()`;
          return rows.length;
        });
        const [row] = await sql`
          select from billing.processed_events where event_id = ${repair.id}`;
        if (repaired > 0 || row !== undefined) repairs.shift();
        else repairs.push(repairs.shift()!);
        return repaired;
      },
    },
    "locks on subscriptions": {
      pauseMs: 50,
      action: (sql) =>
        sql.begin(async (holder) => {
          const id = subscriptions[Math.floor(random() * subscriptions.length)];
          await holder`
            update billing.subscriptions set account_id = account_id
            where id = ${id ?? ""}`;
          await hold();
          return id;
        }),
    },
    "locks on failures": {
      pauseMs: 50,
      action: (sql) =>
        sql.begin(async (holder) => {
          await holder`
            update billing.failed_events set error = error
            where ctid = any (array(
              select ctid from billing.failed_events
              where resolved_at is null
              order by random() limit 3
              for update skip locked
            ))`;
          await hold();
          return true;
        }),
    },
    // A worker is about to settle some of them. It sends those again, so none is
    // locked as often as it is tried.
    "locks on notifications": {
      pauseMs: 30,
      action: (sql) =>
        sql.begin(async (holder) => {
          const rows = await holder`
            update billing.notifications set account_id = account_id
            where id = any (array(
              select id from billing.notifications
              where status = 'pending' and next_attempt_at <= now() and attempts < 3
              order by random() limit 3
              for update skip locked
            ))
            returning id`;
          if (rows.length === 0) return;
          await hold();
          return rows.length;
        }),
    },
    prunings: {
      pauseMs: 50,
      action: (sql) => sql`select billing.prune(batch_size => 200)`,
    },
    // A queue whose run could not release it would rest for a minute.
    "ended leases": {
      pauseMs: 500,
      action: (sql) =>
        sql`
          delete from billing.leases
          where held_until < now() + interval '59.5 seconds'`,
    },
    // The receiver's and the workers' only: the driver does not survive a kill.
    kills: {
      pauseMs: 200,
      action: (sql) =>
        sql`
          select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and usename = 'authenticator'
            and state = 'active' and query ~ 'billing_'
          order by random() limit 1`,
    },
  };
}

/** Resolves after so many milliseconds. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
