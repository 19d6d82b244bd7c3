/**
 * A worker in a process of its own, and what it works on: the outbox.
 *
 * @module
 */
import type postgres from "postgres";
import type { Environment } from "../../scripts/common/environment.ts";
import type { NotificationCounts } from "../../supabase/functions/billing-worker/deliver_notifications.ts";
import { localKeys } from "../../scripts/common/keys.ts";
import { waitUntil } from "../../scripts/common/wait_until.ts";
import { HANG_LIMIT_MS } from "./hang_limit.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { type Answer, post } from "./send.ts";
import { type ServedFunction, serveFunction } from "./serve_function.ts";

/** What a turn counts if nothing is due. */
export const NO_COUNTS: NotificationCounts = {
  claimed: 0,
  sent: 0,
  failed: 0,
  dead: 0,
  undeliverable: 0,
  limited: 0,
  unsent: 0,
};

/** A running worker. */
export interface TestWorker extends ServedFunction {
  /** One turn, with the stack's secret key; what became of the batch. */
  wake(): Promise<Record<string, number>>;
  /** A call as anybody may make it. */
  call(init: RequestInit): Promise<Answer>;
}

/**
 * Starts a worker on a free port.
 *
 * @param env On top of what the platform gives; it names the channel.
 */
export async function startWorker(env: Environment): Promise<TestWorker> {
  const served = await serveFunction("billing-worker", { env });
  const { secret } = await localKeys();

  function call(init: RequestInit) {
    return post(served.url, init);
  }

  async function wake() {
    const { status, body } = await call({ headers: { apikey: secret } });
    if (status !== 200) {
      throw new Error(`The worker answered ${status}\n${served.output()}`);
    }
    return JSON.parse(body).notifications;
  }

  return { ...served, call, wake };
}

/** The columns of an outbox row that tests use. */
export interface OutboxRow {
  readonly id: string;
  readonly event_id: string;
  readonly status: string;
  readonly attempts: number;
  readonly last_error: string | null;
  readonly next_attempt_at: Date;
  readonly lease_id: string | null;
  readonly sent_at: Date | null;
}

/** Postpones what other tests have left, so that nothing is due. */
export async function putOffAll(sql: postgres.Sql): Promise<void> {
  await sql`
    update public.notifications set next_attempt_at = 'infinity'
    where status = 'pending'`;
}

/** Ends the pauses that a 429 has caused. */
export async function endPauses(sql: postgres.Sql): Promise<void> {
  await sql`delete from public.notification_pace`;
}

/**
 * Creates notifications that are due. Nothing else is due then, and no receiver
 * is paused.
 *
 * @returns the IDs of their events
 */
export async function oweNotifications(
  sql: postgres.Sql,
  { count = 1, account = "acc_7" }: { count?: number; account?: string } = {},
): Promise<[string, ...string[]]> {
  await putOffAll(sql);
  await endPauses(sql);
  const rows = Array.from({ length: count }, () => ({
    provider: "a",
    event_id: uniqueId("evt"),
    account_id: account,
    subscription_id: "sub_7",
  }));
  await sql`insert into public.notifications ${sql(rows)}`;
  return rows.map((row) => row.event_id) as [string, ...string[]];
}

/** Returns the notification of an event. */
export async function outboxRow(
  sql: postgres.Sql,
  eventId: string,
): Promise<OutboxRow> {
  const [row] = await sql<[OutboxRow?]>`
    select id, event_id, status, attempts, last_error, next_attempt_at, lease_id, sent_at
    from public.notifications where event_id = ${eventId}`;
  if (!row) throw new Error(`Nothing is owed for ${eventId}`);
  return row;
}

/**
 * Returns the row once no worker has it under way. Nobody else waits for a worker
 * that the webhook woke.
 */
export async function settledRow(
  sql: postgres.Sql,
  eventId: string,
): Promise<OutboxRow> {
  await waitUntil(
    async () => {
      const { attempts, lease_id } = await outboxRow(sql, eventId);
      return attempts > 0 && lease_id === null;
    },
    { timeoutMs: HANG_LIMIT_MS },
  );
  return await outboxRow(sql, eventId);
}

/** Ends the lease or the wait of a notification, and all pauses. */
export async function makeDue(
  sql: postgres.Sql,
  eventId: string,
): Promise<void> {
  await endPauses(sql);
  await sql`
    update public.notifications set next_attempt_at = now()
    where event_id = ${eventId}`;
}
