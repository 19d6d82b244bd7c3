/**
 * Measures the database function by itself: the time that a call takes Postgres, compared
 * with an older version, and with years of rows in the tables.
 */
import postgres from "postgres";
import { withDatabase } from "../scripts/local_stack/databases.ts";
import type { Stack } from "../scripts/local_stack/stack.ts";
import { REPOSITORY } from "../scripts/common/environment.ts";
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
  /** Turns an event into what the receiver sends to the database. */
  readonly wire: (event: object) => unknown;
  /** The distance between the numbers of changed subscriptions. */
  readonly step: number;
  /** The time of the next event. */
  time: number;
  /** The number of the next new subscription. */
  next: number;
}

/** How many subscriptions the updates change. */
const CHANGED = 2_000;

/** When the first event occurred, in Unix seconds. */
const START = 1_750_000_000;

/** The events per call, the number of calls, and the kinds of events. */
const UPDATES = { together: 50, calls: 300, kinds: ["update"] };
const CREATIONS = { ...UPDATES, kinds: ["creation"] };
const CALLS = {
  "an update": { ...UPDATES, together: 1, calls: 3_000 },
  "50 updates": UPDATES,
  "50, mixed": {
    ...UPDATES,
    kinds: [
      "creation",
      "deletion",
      "invoice.payment_failed",
      ...Array<string>(7).fill("update"),
    ],
  },
  "50 creations": CREATIONS,
};
type Calls = typeof UPDATES;

type CallResult = Awaited<ReturnType<typeof measureCalls>>;

/** Creates a database with the function of a clone of this project. */
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

  const [row] = await sql`select pg_backend_pid() as id`;
  return {
    sql,
    processId: row?.["id"],
    wire: await wireForm(project),
    step,
    time: START,
    next: 0,
  };
}

async function wireForm(project: string): Promise<Version["wire"]> {
  const folder = `file://${project}/supabase/functions/_shared/billing`;
  const { stripe } = await import(`${folder}/events/stripe.ts`);
  return (event) => {
    const settings = { planItem: "first", takesEffect: true };
    const { payment, ...data } = stripe.read(event, settings);
    // By default, accounts are notified of failed payments only.
    const isNotified = payment?.kind === "payment_failed";
    return { place: 1, provider: "a", ...data, ...(isNotified && { payment }) };
  };
}

/**
 * Calls the function. Each event is a second later than the one before.
 *
 * @returns per call: milliseconds, milliseconds of processor time, and bytes of log
 */
async function measureCalls(version: Version, plan: Calls) {
  const { sql, processId } = version;
  const { together, calls } = plan;
  const events = makeEvents(version, plan);

  const times: number[] = [];
  const logBefore = await logPosition(sql);
  const { self: before } = await processorTime(processId);
  for (let i = 0; i < events.length; i += together) {
    const began = performance.now();
    const rows = await sql.unsafe(
      `select * from public.billing_apply_events($1::text::jsonb)`,
      [`[${events.slice(i, i + together)}]`],
      { prepare: true },
    );
    times.push(performance.now() - began);

    const failed = rows.find(({ outcome }) => outcome !== "applied");
    if (failed || rows.length < together) {
      throw new Error(`Cannot measure: ${JSON.stringify(failed)}`);
    }
  }
  const { self: after } = await processorTime(processId);

  times.sort((a, b) => a - b);
  return {
    p50: median(times),
    p99: times[Math.floor(calls * 0.99)] ?? NaN,
    processor: (after - before) * 1000 / calls,
    log: (await logPosition(sql) - logBefore) / calls,
  };
}

/** Returns the events of all calls, as JSON in the form that the receiver sends. */
function makeEvents(
  version: Version,
  { together, calls, kinds }: Calls,
): string[] {
  const makers = kinds.map((kind) => filler(kind, version.wire));
  return Array.from({ length: calls * together }, (_, i) => {
    const isNew = kinds[i % kinds.length] === "creation";
    // In a mixture, one event in ten is about the same subscription as the one before.
    const nth = i % 10 === 5 && kinds.length > 1 ? i - 1 : i;
    const subscription = isNew ? version.next++ : nth % CHANGED * version.step;
    return makers[i % kinds.length]!(subscription, version.time++)
      .replace('"place":1', `"place":${i % together + 1}`);
  });
}

/** Returns the end of the write-ahead log, in bytes. */
export async function logPosition(sql: postgres.Sql): Promise<number> {
  const [row] = await sql`
    select (pg_current_wal_lsn() - '0/0'::pg_lsn)::float8 as bytes`;
  return row?.["bytes"];
}

/** Measures versions in turn. The first round only fills the caches, and is not counted. */
async function alternate(
  versions: Readonly<Record<string, Version>>,
  calls: Readonly<Record<string, Calls>>,
  rounds: number,
) {
  const results = Object.entries(calls).flatMap(([name, plan]) =>
    Object.entries(versions).map(([title, version]) => ({
      name,
      plan,
      title,
      version,
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

/** Compares the function with that of the clone in `older`, by default with itself. */
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
    const [ours = [], theirs = []] = results
      .filter((result) => result.name === name)
      .map(({ rounds }) => rounds.map(({ processor }) => processor));
    const ratios = ours.map((time, round) => time / theirs[round]!);
    return [
      name,
      show(spread(ours), 2),
      show(spread(theirs), 2),
      show(spread(ratios), 2),
    ];
  });

  return `
Milliseconds of Postgres' processor time per call, compared with ${project}.

${table(["Call", "Now", "Older", "Now to older"], rows)}`;
}

/** Measures calls with few rows in the tables, and with the rows of years. */
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
    const table = `billing.${name}`;
    const [row] = await full.sql`
      select pg_total_relation_size(${table}::regclass)::float8 as bytes`;
    sizes.push([name, show(rows), show(row?.["bytes"] / rows)]);
  }

  const calls = {
    "an update": CALLS["an update"],
    "50 updates": CALLS["50 updates"],
  };
  const results = await alternate({ empty, full }, calls, rounds);
  const rows = results.map(({ name, plan, title, rounds }) => {
    const middle = (figure: keyof CallResult) =>
      median(rounds.map((round) => round[figure]));
    return [
      name,
      title,
      show(middle("p50"), 2),
      show(middle("p99"), 2),
      show(middle("processor"), 2),
      show(middle("log") / plan.together),
    ];
  });

  return `
Milliseconds per call; bytes of log per event.

${table(["Call", "Tables", "p50", "p99", "Processor", "Log"], rows)}

${table(["Table", "Rows", "Bytes per row, with indexes"], sizes)}`;
}

/** Fills the table of subscriptions with copies of the record that a creation makes. */
export async function copySubscriptions(
  sql: postgres.Sql,
  count: number,
): Promise<void> {
  const wire = await wireForm(REPOSITORY);
  const body = `[${filler("creation", wire)(0, START)}]`;
  await sql`select from public.billing_apply_events(${body}::text::jsonb)`;

  const values = `jsonb_build_object(
    'account_id', 'acc_' || i,
    'id', ${numbered("sub")},
    'customer_id', ${numbered("cus")}
  )`;
  await sql.unsafe(`
    insert into billing.subscriptions
    select r.*
    from generate_series(1, ${count - 1}) as i, billing.subscriptions as s,
      jsonb_populate_record(s, ${values}) as r
    where s.id = '${numberedId("sub", 0)}'`);
}

/** Fills the table of failures with copies of an update that lacks its creation. */
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

  const values = `jsonb_build_object(
    'event_id', ${numbered("evt")},
    'subscription_id', ${numbered("x")},
    'customer_id', ${numbered("y")}
  )`;
  await sql.unsafe(`
    insert into billing.failed_events
    select r.*
    from generate_series(2, ${count}) as i, billing.failed_events as f,
      jsonb_populate_record(f, ${values}) as r
    where f.event_id = 'evt_failed'`);
}

/** Returns SQL for the ID that {@linkcode numberedId} makes from the number i. */
function numbered(prefix: string): string {
  return `'${prefix}_1' || lpad(i::text, 13, '0') || '${ACCOUNT}'`;
}

/**
 * Fills the ledger in the order of time. The IDs have nearly that order, as Stripe's do:
 * ten in a row begin with the same characters.
 */
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
