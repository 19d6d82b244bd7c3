/**
 * Measures what shows only after minutes: whether memory grows under load, and how the
 * receiver copes with a day on which all subscriptions renew.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type postgres from "postgres";
import { withDatabase } from "../scripts/local_stack/databases.ts";
import type { Stack } from "../scripts/local_stack/stack.ts";
import { processTree } from "../tests/support/machine.ts";
import { RENEWAL_EVENTS, RENEWALS_PER_UNPAID } from "./load.ts";
import { median, type Options, show, table } from "./measure.ts";
import { receiverTarget } from "./servers.ts";
import { copySubscriptions, logPosition } from "./sql.ts";
import { createSubscriptions, prepareLoad, warmUpLoad } from "./throughput.ts";

const SLICES = 10;
const SOAK_SECONDS = 300;
/** The load of the soak, in percent of the maximum. */
const SOAK_PERCENT = 80;

const RENEWED = 200_000;
const RENEWAL_SECONDS = 600;
const OUTAGE_SECONDS = 5;

/** Sends a load, and returns a table of its slices, with one more figure for each. */
async function sendSlices(
  send: Awaited<ReturnType<typeof prepareLoad>>,
  { name, measure }: { name: string; measure: () => Promise<number> },
) {
  const rows: string[][] = [];
  const measured: number[] = [];
  const head = ["Slice", "Per second", "p50", "p99", "Not 200", "Backlog"];

  const { answers } = await send(async (slice) => {
    const { perSecond, p50, p99, errors, backlog } = slice;
    const more = await measure();
    measured.push(more);

    const figures = [perSecond, p50, p99, errors, backlog, more];
    const row = [
      `${rows.length + 1}`,
      ...figures.map((figure) => show(figure)),
    ];
    rows.push(row);
    console.log(`  ${row.join(" | ")}`);
  });

  return { answers, measured, table: table([...head, name], rows) };
}

/** Loads the receiver near its maximum, and measures its memory. */
export async function soak(stack: Stack, { scale }: Options): Promise<string> {
  const target = receiverTarget(stack);
  await createSubscriptions(target);
  const warmUp = await prepareLoad(target, warmUpLoad(5));
  await warmUp();

  const connections = 64;
  const sendAtMaximum = await prepareLoad(target, {
    connections,
    seconds: 5,
    built: 40_000,
  });
  const { slices: [fastest] } = await sendAtMaximum();

  const seconds = SOAK_SECONDS * scale;
  const send = await prepareLoad(target, {
    connections,
    seconds,
    sliceSeconds: seconds / SLICES,
    perSecond: fastest!.perSecond * SOAK_PERCENT / 100,
  });
  const measure = () => residentMemory(stack);
  const { measured, table } = await sendSlices(send, { name: "MiB", measure });
  const half = measured.length / 2;
  const growth = median(measured.slice(half)) / median(measured.slice(0, half));

  return `
At ${SOAK_PERCENT} % of the maximum for ${seconds} s, with the memory of the receiver: in the second
half, it is ${growth.toFixed(2)} times that of the first.

${table}`;
}

/** Returns the memory of the receiver's process, in MiB. */
async function residentMemory({ ports }: Stack): Promise<number> {
  for (const [id, { command }] of await processTree(Deno.pid)) {
    if (!command.includes(`--port ${ports.webhook}`)) continue;
    const status = await Deno.readTextFile(`/proc/${id}/status`);
    return Number(/VmRSS:\s*(\d+)/.exec(status)?.[1]) / 1024;
  }
  throw new Error("Cannot measure: the receiver has ended");
}

/** Renews all subscriptions; meanwhile, the database's API is down for some seconds. */
export async function renewals(
  stack: Stack,
  { scale }: Options,
): Promise<string> {
  const subscriptions = Math.round(RENEWED * scale);
  const count = subscriptions * RENEWAL_EVENTS;
  const seconds = RENEWAL_SECONDS * scale;

  async function outage() {
    await sleep(seconds * 450);
    await stack.postgrest.stop();
    await sleep(OUTAGE_SECONDS * 1000);
    await stack.postgrest.start();
  }

  return await withDatabase(stack.dbUrl, async (sql) => {
    await copySubscriptions(sql, subscriptions);
    await sql`truncate billing.processed_events`;
    const sizeBefore = await databaseSize(sql);
    const logBefore = await logPosition(sql);

    const start = Math.floor(Date.now() / 1000);
    const send = await prepareLoad(receiverTarget(stack), {
      stream: "renewals",
      subscriptions,
      start,
      count,
      retries: true,
      connections: 200,
      perSecond: count / seconds,
      sliceSeconds: seconds / SLICES,
    });
    const measure = async () => await databaseSize(sql) - sizeBefore;
    const [sent] = await Promise.all([
      sendSlices(send, { name: "MiB more", measure }),
      outage(),
    ]);
    const log = (await logPosition(sql) - logBefore) / 2 ** 20;

    const found = await countRenewed(sql, start);
    const unpaid = Math.ceil(subscriptions / RENEWALS_PER_UNPAID);
    const expected = {
      "subscriptions renewed": subscriptions,
      "subscriptions past due": unpaid,
      "events in the ledger": subscriptions + 2 * unpaid,
      "notifications": unpaid,
      "open failures": 0,
    };
    const rows = Object.entries(expected)
      .map(([name, count]) => [name, show(Number(found[name])), show(count)]);
    const renewed = show(subscriptions);
    const deliveries = show(sent.answers);

    return `
${renewed} subscriptions renew in ${seconds} s, each with an update and three events of
an invoice; one in ${RENEWALS_PER_UNPAID} is not paid. ${deliveries} deliveries over 200 connections,
including those that are sent again, after 5, 10, 20 s and so on. At 45 % of the time,
PostgREST is down for ${OUTAGE_SECONDS} s. Write-ahead log: ${show(log)} MiB.

${sent.table}

${table(["In the database", "Found", "Expected"], rows)}`;
  });
}

/** Returns the size of the database, in MiB. */
async function databaseSize(sql: postgres.Sql): Promise<number> {
  const [row] = await sql`select pg_database_size('postgres') as bytes`;
  return Number(row?.["bytes"]) / 2 ** 20;
}

/** Counts the rows that renewals since a time leave, by kind. */
async function countRenewed(sql: postgres.Sql, start: number) {
  const [found] = await sql<[Record<string, number>]>`
    select
      (
        select count(*) from billing.subscriptions
        where changed_mark >= ${start}::bigint * 4000000
      ) as "subscriptions renewed",
      (
        select count(*) from billing.subscriptions
        where status = 'past_due'
      ) as "subscriptions past due",
      (select count(*) from billing.processed_events) as "events in the ledger",
      (select count(*) from billing.notifications) as "notifications",
      (select count(*) from billing.open_failures) as "open failures"`;
  return found;
}
