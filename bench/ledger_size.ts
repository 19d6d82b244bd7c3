/**
 * Whether a full ledger costs: apply latency, bytes a row and WAL an event, at
 * three sizes of the ledger.
 *
 * @module
 */
import postgres from "postgres";
import type { Stack } from "../scripts/local_stack/start_stack.ts";
import { subscriptionEvent } from "../scripts/events/event.ts";
import { subscriptionIds } from "./requests.ts";
import { median } from "./statistics.ts";
import { wireEvent } from "./targets.ts";

const SIZES = [10_000, 1_000_000, 10_000_000];
const CALLS = 2_000;

/** What one size of the ledger came to. */
export interface LedgerSize {
  readonly rows: number;
  /** Of a call with one event, in milliseconds. */
  readonly p50: number;
  readonly p99: number;
  /** Table and indexes together. */
  readonly bytesPerRow: number;
  /** Of everything that an update writes. */
  readonly walPerEvent: number;
}

/** Fills the ledger step by step and measures at each. Takes minutes. */
export async function measureLedgerSizes(stack: Stack): Promise<LedgerSize[]> {
  const { url } = await stack.createDatabase("ledger_size");
  const sql = postgres(url, { max: 1, onnotice() {} });
  const admin = postgres(stack.adminUrl, { max: 1 });
  try {
    const subscriptions = subscriptionIds(2_000);
    await apply(sql, {
      type: "customer.subscription.created",
      subscriptions,
    });
    const results: LedgerSize[] = [];
    let rows = subscriptions.length;
    for (const size of SIZES) {
      await fillLedger(sql, { from: rows, to: size });
      await sql`vacuum analyze public.processed_events`;
      await admin`checkpoint`;
      const measured = await measure(sql, subscriptions);
      rows = size + CALLS * 2;
      results.push({ rows: size, ...measured });
      console.log(
        `  ${size} rows: p50 ${measured.p50.toFixed(3)} ms, ` +
          `${Math.round(measured.bytesPerRow)} bytes a row, ` +
          `${Math.round(measured.walPerEvent)} bytes of WAL an event`,
      );
    }
    return results;
  } finally {
    await sql.end();
    await admin.end();
  }
}

/** Rows as they would be after weeks, in the order of their time. */
async function fillLedger(
  sql: postgres.Sql,
  { from, to }: { from: number; to: number },
): Promise<void> {
  await sql`
    insert into public.processed_events (provider, event_id, type, processed_at)
    select
      'a',
      'evt_' || md5(i::text),
      'customer.subscription.updated',
      now() - interval '80 days' + i * interval '80 days' / ${to}
    from generate_series(${from}::bigint, ${to}::bigint) as i`;
}

async function measure(sql: postgres.Sql, subscriptions: readonly string[]) {
  const type = "customer.subscription.updated";
  // The first calls plan and fill the caches.
  await apply(sql, {
    type,
    subscriptions: subscriptions.slice(0, CALLS),
    each: true,
  });
  const [before] = await sql`select pg_current_wal_lsn() as lsn`;
  const times = await apply(sql, {
    type,
    subscriptions: subscriptions.slice(0, CALLS),
    each: true,
  });
  const [after] = await sql`
    select
      pg_wal_lsn_diff(pg_current_wal_lsn(), ${before?.lsn}::pg_lsn)::float8 as wal,
      pg_total_relation_size('public.processed_events')::float8
        / greatest((select count(*) from public.processed_events), 1) as bytes`;
  times.sort((a, b) => a - b);
  return {
    p50: median(times),
    p99: times[Math.floor(times.length * 0.99)] ?? NaN,
    bytesPerRow: Number(after?.bytes),
    walPerEvent: Number(after?.wal) / times.length,
  };
}

let eventTime = 1_750_000_000;

/** Applies one event a subscription, in one call or in one each; their times. */
async function apply(
  sql: postgres.Sql,
  { type, subscriptions, each = false }: {
    type: "customer.subscription.created" | "customer.subscription.updated";
    subscriptions: readonly string[];
    each?: boolean;
  },
): Promise<number[]> {
  const created = eventTime++;
  const events = subscriptions.map((subscription) =>
    wireEvent(subscriptionEvent(type, { subscription, created }))
  );
  const calls = each ? events.map((event) => [event]) : [events];
  const times: number[] = [];
  for (const call of calls) {
    const began = performance.now();
    await sql`
      select place, outcome
      from public.apply_billing_events(${sql.json(call as never)})`;
    times.push(performance.now() - began);
  }
  return times;
}
