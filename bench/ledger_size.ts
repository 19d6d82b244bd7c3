/**
 * What a full ledger costs: apply latency, bytes per row and WAL per event, at
 * three sizes of the ledger, with event IDs as Stripe makes them, which begin with
 * their time.
 */
import postgres from "postgres";
import type { Stack } from "../scripts/local_stack/stack.ts";
import { createMigratedDatabase } from "../tests/support/databases.ts";
import { subscriptionEvent } from "../scripts/events/subscription_event.ts";
import { median, show, table } from "./measure.ts";
import { ACCOUNT, BASE_62, FIRST_SECOND, stripeId } from "./requests.ts";
import { wireEvent } from "./servers.ts";

const SIZES = [10_000, 1_000_000, 10_000_000];
const CALLS = 2_000;
/** When the ledger's first row was created, in Unix seconds. */
const START = 1_750_000_000;
/** How far its rows are apart: 10 million in 80 days. */
const SECONDS_PER_ROW = 80 * 86_400 / 10_000_000;
/** Longer than the events of one round, so that no update is stale. */
const ROUND_SECONDS = 3_600;

/** What one size of the ledger came to. */
export interface LedgerSize {
  readonly rows: number;
  /** Of a call with one event, in milliseconds. */
  readonly p50: number;
  readonly p99: number;
  /** Table and indexes. */
  readonly bytesPerRow: number;
  /** What an event adds to the write-ahead log, with everything it touches. */
  readonly walPerEvent: number;
}

/** Returns the results as Markdown. */
export function ledgerSection(sizes: readonly LedgerSize[]): string {
  return `## Size of the ledger

${
    table(
      [
        "Rows",
        "Apply p50, ms",
        "p99, ms",
        "Bytes per row",
        "WAL per event, bytes",
      ],
      sizes.map(({ rows, p50, p99, bytesPerRow, walPerEvent }) => [
        show(rows, 0),
        show(p50, 3),
        show(p99, 3),
        show(bytesPerRow, 0),
        show(walPerEvent, 0),
      ]),
    )
  }`;
}

/** Measures all sizes. Takes minutes. */
export async function measureLedgerSizes(stack: Stack): Promise<LedgerSize[]> {
  const results: LedgerSize[] = [];
  for (const rows of SIZES) {
    const result = await measureLedger(stack, rows);
    results.push(result);
    console.log(
      `  ${rows} rows: p50 ${result.p50.toFixed(3)} ms, ` +
        `${Math.round(result.bytesPerRow)} bytes per row, ` +
        `${Math.round(result.walPerEvent)} bytes of WAL per event`,
    );
  }
  return results;
}

/** Measures in a database of its own, so that the indexes grow in order of time. */
async function measureLedger(
  stack: Stack,
  rows: number,
): Promise<LedgerSize> {
  const { url } = await createMigratedDatabase(stack.ports.db, {
    name: `ledger_${rows}`,
  });
  const sql = postgres(url, { max: 1, onnotice() {} });
  const admin = postgres(stack.adminUrl, { max: 1 });
  try {
    await fillLedger(sql, rows);
    const subscriptions = Array.from({ length: CALLS }, (_, i) => `sub_${i}`);
    const created = START + Math.ceil(rows * SECONDS_PER_ROW);
    const plan = { subscriptions, created };
    await applyAll(sql, { ...plan, type: "customer.subscription.created" });
    await sql`vacuum analyze billing.processed_events`;
    await admin`checkpoint`;

    // The first calls plan and fill the caches.
    const type = "customer.subscription.updated";
    await applyAll(sql, { ...plan, type, created: created + ROUND_SECONDS });
    const [before] = await sql`select pg_current_wal_lsn() as lsn`;
    const times = await applyAll(sql, {
      ...plan,
      type,
      created: created + 2 * ROUND_SECONDS,
    });
    const [after] = await sql`
      select
        pg_wal_lsn_diff(pg_current_wal_lsn(), ${before?.lsn}::pg_lsn)::float8 as wal,
        pg_total_relation_size('billing.processed_events')::float8
          / (select count(*) from billing.processed_events) as bytes`;
    return {
      rows,
      p50: median(times),
      p99: times.toSorted((a, b) => a - b)[Math.floor(CALLS * 0.99)] ?? NaN,
      bytesPerRow: Number(after?.bytes),
      walPerEvent: Number(after?.wal) / CALLS,
    };
  } finally {
    await sql.end();
    await admin.end();
  }
}

/** Rows as they would be after weeks, in the order of their time. */
async function fillLedger(
  sql: postgres.Sql,
  rows: number,
): Promise<void> {
  const seconds = `(i * ${SECONDS_PER_ROW})::bigint`;
  const digits = [4, 3, 2, 1, 0].map((place) =>
    `substr('${BASE_62}', ((${START - FIRST_SECOND} + ${seconds}) / ${
      62 ** place
    } % 62)::integer + 1, 1)`
  );
  const id = `'evt_1' || ${
    digits.join(" || ")
  } || '${ACCOUNT}' || substr(md5(i::text), 1, 8)`;
  await sql`
    insert into billing.processed_events (provider, event_id, type, processed_at)
    select
      'a',
      ${sql.unsafe(id)},
      'customer.subscription.updated',
      now() - interval '80 days' + ${sql.unsafe(seconds)} * interval '1 s'
    from generate_series(1, ${rows}::bigint) as i`;
}

/**
 * How long an event took to arrive. Some overtake others, which shows in the log;
 * the rows from before are in order.
 */
function secondsLate(): number {
  return Math.floor(-3 * Math.log(1 - Math.random()));
}

/** Applies one event per subscription, in a call of its own; their times. */
async function applyAll(
  sql: postgres.Sql,
  { subscriptions, type, created }: {
    subscriptions: readonly string[];
    type: "customer.subscription.created" | "customer.subscription.updated";
    created: number;
  },
): Promise<number[]> {
  const times: number[] = [];
  for (const [i, subscription] of subscriptions.entries()) {
    const at = created + Math.floor(i * SECONDS_PER_ROW) - secondsLate();
    const id = stripeId("evt", at);
    const event = wireEvent(
      subscriptionEvent(type, { id, subscription, created: at }),
    );
    const began = performance.now();
    await sql`
      select place, outcome
      from public.billing_apply_events(${sql.json([event] as never)})`;
    times.push(performance.now() - began);
  }
  return times;
}
