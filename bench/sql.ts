/**
 * The database function by itself: what a call costs Postgres, beside that of an older
 * version, and with years of rows in the tables.
 */
import postgres from "postgres";
import { withDatabase } from "../scripts/local_stack/databases.ts";
import type { Stack } from "../scripts/local_stack/stack.ts";
import { REPOSITORY } from "../scripts/common/how_started.ts";
import { createDatabase, migrate } from "../tests/support/databases.ts";
import { ACCOUNT, filler, numberedId } from "./load.ts";
import {
  median,
  type Options,
  processorTime,
  show,
  spread,
  table,
} from "./measure.ts";

/** A version of the database function, in a database of its own. */
interface Version {
  readonly sql: postgres.Sql;
  /** The process that serves the connection. */
  readonly processId: number;
  readonly call: string;
  /** Makes of an event what the receiver sends to the database. */
  readonly wire: (event: object) => unknown;
  /** Every how many-th subscription is changed. */
  readonly step: number;
  /** The time of the next event, and the number of the next new subscription. */
  time: number;
  next: number;
}

const CHANGED = 2_000;
/** When the first event occurred, in Unix seconds. */
const START = 1_750_000_000;

/** How many events are called together, how often, and of which kinds. */
const UPDATES = { together: 50, calls: 300, kinds: ["update"] };
const CREATIONS = { ...UPDATES, kinds: ["creation"] };
const CALLS = {
  "an update": { ...UPDATES, together: 1, calls: 3_000 },
  "50 updates": UPDATES,
  "50, mixed": {
    ...UPDATES,
    kinds: ["creation", "deletion", "invoice.payment_failed"]
      .concat(Array(7).fill("update")),
  },
  "50 creations": CREATIONS,
};
type Calls = typeof UPDATES;

type CallResult = Awaited<ReturnType<typeof measureCalls>>;

/** Opens the function of a clone of this project. */
async function openVersion(
  stack: Stack,
  { name, project = REPOSITORY, step = 1 }: {
    name: string;
    project?: string;
    step?: number;
  },
): Promise<Version> {
  const { url } = await createDatabase(stack.ports.db, { name });
  await migrate(url, project);
  const sql = postgres(url, { max: 1, onnotice() {} });
  const [row] = await sql`
    select pg_backend_pid() as id, to_regproc('public.apply_billing_events') is not null as is_old`;
  const isOld = row?.["is_old"];
  return {
    ...{ sql, processId: row?.["id"], step, time: START, next: 0 },
    call: isOld ? "apply_billing_events" : "billing_apply_events",
    wire: await wireForm(project, { isOld }),
  };
}

async function wireForm(
  project: string,
  { isOld = false } = {},
): Promise<Version["wire"]> {
  const folder = `file://${project}/supabase/functions/_shared/billing`;
  if (isOld) {
    // Before the SQL was founded anew.
    const { handledEvent } = await import(`${folder}/events.ts`);
    return (event) => ({ ...handledEvent.parse(event), provider: "a" });
  }
  const { stripe } = await import(`${folder}/events/stripe.ts`);
  return (event) => {
    const settings = { planItem: "first", isHandled: true };
    const { payment, ...data } = stripe.read(event, settings);
    // As by default: accounts are told of nothing else.
    const isTold = payment?.kind === "payment_failed";
    return { place: 1, provider: "a", ...data, ...(isTold && { payment }) };
  };
}

/**
 * Calls the function; each event is a second later than the last one.
 *
 * @returns per call: milliseconds, those of the processor, and bytes of log
 */
async function measureCalls(
  version: Version,
  { together, calls, kinds }: Calls,
) {
  const { sql, processId, call, wire, step } = version;
  const makers = kinds.map((kind) => filler(kind, wire));
  const events = Array.from({ length: calls * together }, (_, i) => {
    const isNew = kinds[i % kinds.length] === "creation";
    // In a mixture, one in ten is of the subscription of the one before.
    const nth = i % 10 === 5 && kinds.length > 1 ? i - 1 : i;
    const of = isNew ? version.next++ : nth % CHANGED * step;
    return makers[i % kinds.length]!(of, version.time++)
      .replace('"place":1', `"place":${i % together + 1}`);
  });
  const times: number[] = [];
  const logBefore = await logPosition(sql);
  const { own: before } = await processorTime(processId);
  for (let i = 0; i < events.length; i += together) {
    const began = performance.now();
    const rows = await sql.unsafe(
      `select * from public.${call}($1::text::jsonb)`,
      [`[${events.slice(i, i + together)}]`],
      { prepare: true },
    );
    times.push(performance.now() - began);
    const failed = rows.find(({ outcome }) => outcome !== "applied");
    if (failed || rows.length < together) {
      throw new Error(`Cannot measure: ${JSON.stringify(failed)}`);
    }
  }
  const { own: after } = await processorTime(processId);
  times.sort((a, b) => a - b);
  return {
    p50: median(times),
    p99: times[Math.floor(calls * 0.99)] ?? NaN,
    processor: (after - before) * 1000 / calls,
    log: (await logPosition(sql) - logBefore) / calls,
  };
}

/** Where the write-ahead log ends, in bytes. */
export async function logPosition(sql: postgres.Sql): Promise<number> {
  const [row] = await sql`
    select (pg_current_wal_lsn() - '0/0'::pg_lsn)::float8 as bytes`;
  return row?.["bytes"];
}

/** Measures versions in turn, after a round that plans and fills the caches. */
async function alternate(
  versions: Readonly<Record<string, Version>>,
  calls: Readonly<Record<string, Calls>>,
  rounds: number,
) {
  const results = Object.entries(calls).flatMap(([name, plan]) =>
    Object.entries(versions).map(([title, version]) => ({
      ...{ name, plan, title, version },
      rounds: [] as CallResult[],
    }))
  );
  for (let round = 0; round <= rounds; round++) {
    for (const { name, plan, title, version, rounds: measured } of results) {
      const result = await measureCalls(version, plan);
      if (round > 0) measured.push(result);
      const shown = show(result.processor, 3);
      console.log(`  ${round}/${rounds} ${name}, ${title}: ${shown} ms`);
    }
  }
  for (const { sql } of Object.values(versions)) await sql.end();
  return results;
}

/** Measures the function, and that of the clone in `older` if there is one. */
export async function sql(
  stack: Stack,
  { rounds, older: project = REPOSITORY }: Options,
): Promise<string> {
  const now = await openVersion(stack, { name: "sql_now" });
  const older = await openVersion(stack, { name: "sql_older", project });
  for (const version of [now, older]) {
    await measureCalls(version, { ...CREATIONS, calls: 400 });
    await version.sql`vacuum analyze`;
  }
  const results = await alternate({ now, older }, CALLS, rounds);
  const rows = Object.keys(CALLS).map((name) => {
    const [ours = [], theirs = []] = results.filter((it) => it.name === name)
      .map(({ rounds }) => rounds.map(({ processor }) => processor));
    const ratios = ours.map((time, round) => time / theirs[round]!);
    return [name, ...[ours, theirs, ratios].map((it) => show(spread(it), 2))];
  });
  return `
Milliseconds of Postgres' processor time per call, beside ${project}.

${table(["Call", "Now", "Older", "Now to older"], rows)}`;
}

/** Measures calls with few rows, and with what years leave. */
export async function growth(
  stack: Stack,
  { rounds, scale }: Options,
): Promise<string> {
  const counts = {
    subscriptions: Math.round(1_000_000 * scale),
    failed_events: Math.round(100_000 * scale),
    processed_events: Math.round(10_000_000 * scale),
  };
  const step = Math.floor(counts.subscriptions / CHANGED);
  const empty = await openVersion(stack, { name: "growth_empty" });
  const full = await openVersion(stack, { name: "growth_full", step });
  await copySubscriptions(empty.sql, CHANGED);
  console.log("  Filling the tables");
  await copySubscriptions(full.sql, counts.subscriptions);
  await copyFailures(full.sql, counts.failed_events);
  await fillLedger(full.sql, counts.processed_events);
  for (const { sql } of [empty, full]) await sql`vacuum analyze`;
  await withDatabase(stack.adminUrl, (sql) => sql`checkpoint`);
  const sizes = [];
  for (const [name, rows] of Object.entries(counts)) {
    const [row] = await full.sql`
      select pg_total_relation_size(${`billing.${name}`}::regclass)::float8 as bytes`;
    sizes.push([name, show(rows), show(row?.["bytes"] / rows)]);
  }
  const { "an update": one, "50 updates": fifty } = CALLS;
  const calls = { "an update": one, "50 updates": fifty };
  const results = await alternate({ empty, full }, calls, rounds);
  const rows = results.map(({ name, plan, title, rounds }) => {
    const middle = (of: keyof CallResult) =>
      median(rounds.map((round) => round[of]));
    const times = [middle("p50"), middle("p99"), middle("processor")];
    const log = show(middle("log") / plan.together);
    return [name, title, ...times.map((time) => show(time, 2)), log];
  });
  return `
Milliseconds per call; bytes of log per event.

${table(["Call", "Tables", "p50", "p99", "Processor", "Log"], rows)}

${table(["Table", "Rows", "Bytes per row, with indexes"], sizes)}`;
}

/** Fills the table with copies of what the function makes of a creation. */
export async function copySubscriptions(
  sql: postgres.Sql,
  count: number,
): Promise<void> {
  const wire = await wireForm(REPOSITORY);
  const body = `[${filler("creation", wire)(0, START)}]`;
  await sql`select from public.billing_apply_events(${body}::text::jsonb)`;
  await sql.unsafe(`
    insert into billing.subscriptions
    select r.*
    from generate_series(1, ${count - 1}) as i, billing.subscriptions as s,
      jsonb_populate_record(s, jsonb_build_object('account_id', 'acc_' || i,
        'id', ${numbered("sub")}, 'customer_id', ${numbered("cus")})) as r
    where s.id = '${numberedId("sub", 0)}'`);
}

/** Fills the table with copies of an update without a creation. */
async function copyFailures(sql: postgres.Sql, count: number): Promise<void> {
  const payload = filler("update")(-1, START);
  await sql`
    select public.billing_record_failed_event(jsonb_build_object(
      'provider', 'a',
      'event_id', 'evt_failed',
      'body', ${payload}::text,
      'body_encoding', 'text',
      'error_code', 'subscription_unknown',
      'error', 'There is no such subscription.',
      'type', 'customer.subscription.updated',
      'kind', 'update',
      'subscription_id', ${numberedId("sub", -1)}::text,
      'customer_id', 'cus_1',
      'account_id', 'acc_1',
      'occurred_at', now()
    ))`;
  await sql.unsafe(`
    insert into billing.failed_events
    select r.*
    from generate_series(2, ${count}) as i, billing.failed_events as f,
      jsonb_populate_record(f, jsonb_build_object('event_id', ${
    numbered("evt")
  },
        'subscription_id', ${numbered("x")}, 'customer_id', ${
    numbered("y")
  })) as r
    where f.event_id = 'evt_failed'`);
}

/** In SQL, what {@linkcode numberedId} returns of i. */
function numbered(prefix: string): string {
  return `'${prefix}_1' || lpad(i::text, 13, '0') || '${ACCOUNT}'`;
}

/** Rows in the order of their time, as Stripe's IDs are: ten begin with the same. */
async function fillLedger(sql: postgres.Sql, count: number): Promise<void> {
  await sql.unsafe(`
    insert into billing.processed_events (provider, event_id, type, processed_at)
    select
      'a',
      'evt_1' || upper(lpad(to_hex(i / 10), 5, '0')) || '${ACCOUNT}' || substr(md5(i::text), 1, 8),
      'customer.subscription.updated',
      now() - interval '80 days' * (1 - i / ${count}.0)
    from generate_series(1, ${count}) as i`);
}
