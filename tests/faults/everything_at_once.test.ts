/**
 * Everything at once: deliveries over 16 connections, two workers, an account
 * that answers 429 now and then, people who retry, repair, resolve and lock,
 * pruning, and backends that are killed. Nothing is lost or applied twice,
 * nothing deadlocks, no applied event has an open failure, every notification
 * gets through, and events that nobody disturbs are acknowledged at once.
 *
 * `EVERYTHING_SECONDS=60 deno task test tests/faults/everything_at_once.test.ts`
 * runs it for a minute.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import postgres from "postgres";
import { edited } from "../support/edited.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { assertEndState } from "../support/histories/end_state.ts";
import { eventBody } from "../support/histories/event_body.ts";
import {
  type History,
  history,
  type HistoryEvent,
  renamed,
} from "../support/histories/history.ts";
import { freshSeed, seededRandom, shuffled } from "../support/random.ts";
import { startReceiver } from "../support/receiver.ts";
import type { ServedFunction } from "../support/serve_function.ts";
import { emptyTables } from "../support/tables.ts";
import { setting } from "../support/test_environment.ts";
import { settleLeftovers, wake } from "../support/triage.ts";
import { startWorker } from "../support/worker.ts";
import { actions, type Disturbed, pause, type Repair } from "./operators.ts";
import {
  assertNotified,
  deliverRest,
  oweSome,
  startAccount,
} from "./notified.ts";
import { deliverAll, postSigned } from "../support/histories/deliver_all.ts";

const SECONDS = Number(Deno.env.get("EVERYTHING_SECONDS") ?? "4");
const CONNECTIONS = 16;
/** Each lane has its lot to the end before the next, and a lot has a tail. */
const LANES = 4;
/** In each lot. */
const HISTORIES = 6;
const REPAIRS = 2;
const OTHERS = 20;
/**
 * What a call says whose backend was killed, or could not be had. For a connection
 * that died before its query, PostgREST answers 400 with an empty code
 * (https://github.com/PostgREST/postgrest/issues/4681).
 */
const KILLED = /57P01|PGRST00|08006|08003|terminat|HTTP status 400/;

/** An event as it is delivered. */
interface Delivery {
  readonly id: string;
  readonly body: object;
}

/** An event that is filed, and repaired while the provider delivers it. */
interface Filed extends Delivery, Repair {}

/** How the first delivery of an event that nobody disturbs is answered. */
interface Undisturbed {
  readonly id: string;
  readonly status: number;
}

Deno.test(`everything at once, for ${SECONDS} s, loses no event, applies none twice and never deadlocks`, async () => {
  const seed = freshSeed();
  const random = seededRandom(seed);
  const run = crypto.randomUUID().slice(0, 8);
  const sql = postgres(setting("TEST_DATABASE_URL"), { max: 4, onnotice() {} });
  await settleLeftovers(sql);
  await oldRows(sql);
  await oweSome(SECONDS, sql);
  const deadlocksBefore = await deadlocks(sql);
  const receiver = await startReceiver();
  await using account = startAccount(random);
  const workers = await Promise.all([
    startWorker(account.env),
    startWorker(account.env),
  ]);
  const disturbed: Disturbed = {
    subscriptions: [],
    repairs: [],
    resolvable: `evt_${run}_history`,
  };
  let isOver = false;
  const actors = Object.entries(actions(disturbed, random)).map(
    ([name, actor]) => act(name, actor, { isOver: () => isOver }),
  );
  // Some turns deliver notifications while others retry.
  const turns = [...workers, ...workers].map(async (worker) => {
    while (!isOver) {
      await wake(worker);
      await pause(50);
    }
  });

  const lived: HistoryEvent[] = [];
  const repaired: Filed[] = [];
  const others: Undisturbed[] = [];
  const total = { deliveries: 0, retries: 0 };

  /** One lot after the other: histories, repairs and events of their own. */
  async function sendLots(lane: number): Promise<void> {
    for (let lot = lane; performance.now() < end; lot += LANES) {
      const histories = fc
        .sample(history, { seed: seed + lot, numRuns: HISTORIES })
        .map((each, i) => renamed(each, `${run}_history_${lot}_${i}`));
      const events = histories.flatMap((each) => [...each.events]);
      lived.push(...events);
      disturbed.subscriptions.push(
        ...new Set(events.map(({ subscription }) => subscription)),
      );
      disturbed.subscriptions.splice(0, disturbed.subscriptions.length - 50);
      const toRepair = await fileForRepair(`${run}_${lot}`, sql);
      repaired.push(...toRepair);
      disturbed.repairs.push(...toRepair);
      const undisturbed = creations(`${run}_other_${lot}`);
      const first = new Set(undisturbed.map(({ id }) => id));
      const figures = await deliverAll(
        shuffled(
          [...deliveriesOf(histories), ...toRepair, ...undisturbed],
          random,
        ),
        async ({ id, body }) => {
          const status = await postSigned(receiver.url, body);
          if (first.delete(id)) others.push({ id, status });
          return status;
        },
        { connections: CONNECTIONS / LANES },
      );
      total.deliveries += figures.deliveries;
      total.retries += figures.retries;
    }
  }

  const end = performance.now() + SECONDS * 1000;
  try {
    await Promise.all(Array.from({ length: LANES }, (_, i) => sendLots(i)));
  } finally {
    isOver = true;
    account.takeAll();
    await Promise.all([...actors, ...turns]);
    await deliverRest(workers[0], sql);
    await Promise.all(
      [receiver, ...workers].map((one) => one[Symbol.asyncDispose]()),
    );
  }

  const done = await Promise.all(actors);
  const refused = others.filter(({ status }) => status !== 200);
  const withoutReason = refused.filter(({ id }) =>
    !KILLED.test(lineAbout(receiver, id))
  );
  console.log(
    `${total.deliveries} deliveries of ${lived.length} events of histories, ${repaired.length} repairs and ${others.length} others, ${total.retries} retried; seed ${seed}`,
  );
  console.log(done.map(({ name, times }) => `${times} ${name}`).join(", "));
  console.log(
    `others: ${refused.length} not 200, ${withoutReason.length} of them without a killed backend`,
  );
  try {
    for (const { name, faults } of done) {
      assertEquals([name, faults], [name, []]);
    }
    assertEquals(await deadlocks(sql) - deadlocksBefore, 0);
    for (const { output } of [receiver, ...workers]) {
      assert(!output().includes("40P01"), "A call met a deadlock");
    }
    assertEquals(
      withoutReason.map(({ id }) => lineAbout(receiver, id)),
      [],
    );
    await assertEndState({ events: lived }, sql);
    await assertAppliedAsFiled(repaired, sql);
    await assertAppliedOnce(others, sql);
    await assertNoneOpen(sql);
    await assertNotified(account, sql);
  } finally {
    await emptyTables(sql);
    await sql.end();
  }
});

/** What an actor has done, and every error that it should not have met. */
interface Acted {
  readonly name: string;
  readonly times: number;
  readonly faults: readonly string[];
}

async function act(
  name: string,
  { action, pauseMs }: ReturnType<typeof actions>[string],
  { isOver }: { isOver: () => boolean },
): Promise<Acted> {
  const sql = postgres(setting("TEST_DATABASE_URL"), { max: 1, onnotice() {} });
  const faults: string[] = [];
  let times = 0;
  while (!isOver()) {
    try {
      if (await action(sql) !== undefined) times++;
    } catch (error) {
      const { code, message } = error as { code?: string; message: string };
      // The functions' own: the event was resolved in between.
      if (code !== "P0001") faults.push(`${code} ${message}`);
    }
    await pause(pauseMs);
  }
  await sql.end();
  return { name, times, faults };
}

/** Old enough to be pruned while the rest goes on. */
async function oldRows(sql: postgres.Sql): Promise<void> {
  const run = crypto.randomUUID();
  await sql`
    insert into billing.processed_events (provider, event_id, type, processed_at)
    select 'a', ${run} || i, 'x', now() - interval '1 year'
    from generate_series(1, 20000) as i`;
  await sql`
    insert into billing.failed_events (
      provider, event_id, payload, payload_encoding, error_code, error,
      resolved_at, resolution
    )
    select 'a', ${run} || i, '{}', 'json', 'x', 'x', now() - interval '1 year', 'applied'
    from generate_series(1, 5000) as i`;
}

async function deadlocks(sql: postgres.Sql): Promise<number> {
  const [row] = await sql`
    select deadlocks::int from pg_stat_database
    where datname = current_database()`;
  return row?.["deadlocks"];
}

function deliveriesOf(histories: readonly History[]): Delivery[] {
  return histories.flatMap(({ deliveries }) =>
    deliveries.map((event) => ({ id: event.id, body: eventBody(event) }))
  );
}

/** Creations of subscriptions that nobody else knows. */
function creations(name: string): Delivery[] {
  return Array.from({ length: OTHERS }, (_, i) => {
    const id = `evt_${name}_${i}`;
    const subscription = subscriptionOf(id);
    const type = "customer.subscription.created";
    return { id, body: subscriptionEvent(type, { id, subscription }) };
  });
}

function subscriptionOf(eventId: string): string {
  return eventId.replace("evt_", "sub_");
}

/**
 * Files events that somebody repairs while the provider delivers them: one that
 * fails until then, and one that failed once and would succeed.
 */
async function fileForRepair(name: string, sql: postgres.Sql) {
  const events = Array.from({ length: REPAIRS }, (_, i): Filed => {
    const id = `evt_${name}_repaired_${i}`;
    const good = subscriptionEvent("customer.subscription.created", {
      id,
      subscription: subscriptionOf(id),
      account: "acc_received",
    });
    const payload = edited(good, {
      "data.object.metadata": { accountId: "acc_repaired" },
    });
    const bad = edited(good, { "data.object.metadata": {} });
    return { id, payload, body: i % 2 === 0 ? bad : good };
  });
  for (const { id, body } of events) {
    await sql`
      select public.billing_record_failed_event(
        'a', ${id}, ${
      JSON.stringify(body)
    }, 'text', 'database_unavailable', 'x',
        'customer.subscription.created'
      )`;
  }
  return events;
}

/** The receiver's line about the first failed delivery of an event. */
function lineAbout(receiver: ServedFunction, id: string): string {
  return receiver.output().split("\n").find((line) =>
    line.includes('"delivery failed"') && line.includes(`"${id}"`)
  ) ?? `${id}: no line`;
}

/** What the row says was applied is what the record holds, repaired or not. */
async function assertAppliedAsFiled(
  repaired: readonly Filed[],
  sql: postgres.Sql,
): Promise<void> {
  const rows = await sql`
    select
      f.event_id, f.resolution, s.account_id as recorded,
      f.payload #>> '{data,object,metadata,accountId}' as filed,
      f.original_payload is not null as was_repaired
    from billing.failed_events f
    left join billing.subscriptions s
      on s.id = f.payload #>> '{data,object,id}'
    where f.event_id = any(${repaired.map(({ id }) => id)})`;
  assertEquals(rows.length, repaired.length);
  const wrong = rows.filter((row) =>
    row["resolution"] !== "applied" || row["filed"] !== row["recorded"]
  );
  assertEquals([...wrong], []);
  console.log(
    `${
      rows.filter((row) => row["was_repaired"]).length
    } of ${rows.length} applied as repaired, the rest before their repair`,
  );
}

async function assertAppliedOnce(
  others: readonly Undisturbed[],
  sql: postgres.Sql,
): Promise<void> {
  const [row] = await sql`
    select
      (select count(*)::int from billing.processed_events
        where event_id = any(${others.map(({ id }) => id)})) as ledger,
      (select count(*)::int from billing.subscriptions
        where id = any(${
    others.map(({ id }) => subscriptionOf(id))
  })) as records`;
  const { length } = others;
  assertEquals({ ...row }, { ledger: length, records: length });
}

/** No event that was applied has an open failure. */
async function assertNoneOpen(sql: postgres.Sql): Promise<void> {
  const open = await sql`
    select f.event_id, f.error_code
    from billing.failed_events f
    join billing.processed_events p using (provider, event_id)
    where f.resolved_at is null`;
  assertEquals([...open], []);
}
