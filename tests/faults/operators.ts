/** What people and accidents do to the database while events come in. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Sql } from "postgres";

/** Is done again and again, with a pause after it. */
export interface Action {
  readonly act: (sql: Sql) => Promise<unknown>;
  readonly pauseMs: number;
}

export function actions(random: () => number): Record<string, Action> {
  /** Locks rows, mostly for less time than the receiver tries. */
  const lockSome = (table: string, condition: string) => (sql: Sql) =>
    sql.begin(async (holder) => {
      await holder.unsafe(`
        update billing.${table} set provider = provider
        where ctid = any (array(
          select ctid from billing.${table} where ${condition}
          order by random() limit 3
          for update skip locked
        ))`);
      await sleep(random() < 0.1 ? 2_000 : 20 + random() * 300);
    });

  // A repaired event is refused until its retry, so no creation is repaired. As in
  // the SQL editor, several statements are one transaction.
  const repair = (sql: Sql) =>
    sql.begin(async (editor) => {
      await editor`
        update billing.failed_events f
        set payload = f.payload || jsonb_build_object('repaired', random())
        where f.event_id = (
          select o.event_id from billing.open_failures o
          where o.type <> 'customer.subscription.created'
          order by random() limit 1
        ) and f.resolved_at is null`;
      await sleep(random() * 20);
      await editor`select billing.retry_failed_events()`;
    });

  return {
    "retries of all": {
      act: (sql) => sql`select billing.retry_failed_events()`,
      pauseMs: 150,
    },
    resolves: {
      act: (sql) =>
        sql`
          select billing.resolve_failed_event(f.event_id, 'a test', 'me')
          from (select * from billing.open_failures order by random() limit 1) as f`,
      pauseMs: 100,
    },
    repairs: {
      act: repair,
      pauseMs: 100,
    },
    "locks on subscriptions": {
      act: lockSome("subscriptions", "true"),
      pauseMs: 50,
    },
    "locks on failures": {
      act: lockSome("failed_events", "resolved_at is null"),
      pauseMs: 50,
    },
    // A worker is about to settle some of them. It sends those again, so none is
    // locked as often as it is tried.
    "locks on notifications": {
      act: lockSome(
        "notifications",
        "status = 'pending' and next_attempt_at <= now() and attempts < 3",
      ),
      pauseMs: 30,
    },
    prunings: {
      act: (sql) => sql`select billing.prune(batch_size => 200)`,
      pauseMs: 50,
    },
    // A queue whose run could not release it would rest for a minute.
    "ended leases": {
      act: (sql) =>
        sql`
          delete from billing.leases
          where held_until < now() + interval '59.5 seconds'`,
      pauseMs: 500,
    },
    // Those of the receiver and the workers: the test's driver survives no kill.
    kills: {
      act: (sql) =>
        sql`
          select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and usename = 'authenticator'
            and state = 'active' and query ~ 'billing_'
          order by random() limit 1`,
      pauseMs: 200,
    },
  };
}
