/**
 * Deliveries over 16 connections, two workers, an account that answers 429 now and then,
 * people who retry, repair, resolve and lock, pruning, and backends that are killed. A
 * good event that meets a fault of the database is answered with 503.
 *
 * `EVERYTHING_SECONDS=60 deno task test tests/faults/everything_at_once.test.ts`
 * runs it for a minute.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { assert, assertEquals } from "@std/assert";
import type { Row, Sql } from "postgres";
import { eventually } from "../support/hang_limit.ts";
import { deliverAll, deliveriesOf } from "../property/histories/deliver_all.ts";
import { assertEndState } from "../property/histories/end_state.ts";
import {
  eventsOf,
  type HistoryEvent,
  sampleHistories,
} from "../property/histories/history.ts";
import { startNotifiedEndpoint } from "../support/notified.ts";
import { freshSeed, seededRandom, shuffled } from "../support/random.ts";
import { startReceiver, startWorker, wake } from "../support/functions.ts";
import { connect, emptyTables } from "../support/tables.ts";
import { type Action, actions } from "./operators.ts";

const SECONDS = Number(Deno.env.get("EVERYTHING_SECONDS") ?? "2");
const CONNECTIONS = 16;
/** Each lane has its lot to the end before the next, and a lot has a tail. */
const LANES = 4;
const HISTORIES_IN_A_LOT = 6;
const NOTIFICATIONS = 150;
const LIMITED_SHARE = 0.02;
/** The actions that go on until everything got through. */
const HELPERS = new Set(["retries of all", "ended leases"]);

Deno.test(`everything at once, for ${SECONDS} s, loses no event, applies none twice and never deadlocks`, async () => {
  const seed = freshSeed();
  const random = seededRandom(seed);
  const run = crypto.randomUUID().slice(0, 8);

  await using opened = new AsyncDisposableStack();
  const sql = connect();
  opened.defer(() => sql.end());
  await emptyTables(sql);
  opened.defer(() => emptyTables(sql));
  await fillTables(sql);

  let limitedShare = LIMITED_SHARE;
  const taken = new Map<string, number>();
  const endpoint = opened.use(startNotifiedEndpoint());
  endpoint.answerWith(async ({ id }) => {
    await sleep(random() * 50); // time to lock what is under way
    if (random() < limitedShare) {
      return new Response("", { status: 429, headers: { "retry-after": "1" } });
    }
    taken.set(id, (taken.get(id) ?? 0) + 1);
    return new Response("OK");
  });
  const receiver = opened.use(await startReceiver());
  const worker = opened.use(await startWorker(endpoint.env));
  const otherWorker = opened.use(await startWorker(endpoint.env));

  const end = performance.now() + SECONDS * 1000;
  let isOver = false;
  const actors = Object.entries(actions(random)).map(
    ([name, action]) =>
      repeat(
        name,
        action,
        () => isOver || performance.now() > end && !HELPERS.has(name),
      ),
  );
  // Some turns deliver notifications while others retry.
  const workers = [worker, otherWorker, worker, otherWorker];
  const turns = workers.map(async (woken) => {
    while (!isOver) {
      await wake(woken);
      await sleep(50);
    }
  });

  const lived: HistoryEvent[] = [];
  const refused: unknown[] = [];
  let made = 0;
  async function sendLots(lane: number): Promise<void> {
    for (let lot = lane; performance.now() < end; lot += LANES) {
      const histories = sampleHistories(HISTORIES_IN_A_LOT, {
        seed: seed + lot,
        prefix: `${run}_${lot}`,
      });
      const events = eventsOf(histories);
      lived.push(...events);

      // Nothing that they need can be missing, and no operator repairs them.
      const good = new Set(
        events.filter(({ type, namesAccount }) =>
          type === "customer.subscription.created" && namesAccount
        ).map(({ id }) => id),
      );

      const { deliveries } = await deliverAll(
        shuffled(deliveriesOf(histories), random),
        {
          url: receiver.url,
          connections: CONNECTIONS / LANES,
          onAnswer: ({ id }, status) => {
            if (good.has(id) && status !== 200 && status !== 503) {
              refused.push({ id, status });
            }
          },
        },
      );
      made += deliveries;
    }
  }

  try {
    await Promise.all(Array.from({ length: LANES }, (_, i) => sendLots(i)));
  } finally {
    isOver = true;
    limitedShare = 0;
    await Promise.all([...actors, ...turns]);
  }

  // Killed backends are found out at the next calls, one at a time.
  await eventually(async () => {
    await sql`truncate billing.pauses, billing.leases`;
    const due = await sql`
      update billing.notifications set next_attempt_at = now()
      where status = 'pending' returning id`;
    if (due.length > 0) await wake(worker);
    return due.length === 0;
  });

  const done = await Promise.all(actors);
  console.log(`${made} deliveries of ${lived.length} events; seed ${seed}`);
  console.log(done.map(({ name, times }) => `${times} ${name}`).join(", "));
  assertEquals(done.flatMap(({ faults }) => faults), []);
  for (const { output } of [receiver, worker, otherWorker]) {
    assert(!output().includes("40P01"), "A call met a deadlock");
  }
  assertEquals(refused, []);
  await assertEndState({ events: lived }, sql);
  await assertNotified(taken, sql);
});

async function repeat(
  name: string,
  { act, pauseMs }: Action,
  isOver: () => boolean,
) {
  // Its own connection, so that no action waits for another one.
  const sql = connect(1);
  const faults: string[] = [];
  let times = 0;
  for (; !isOver(); times++) {
    await act(sql).catch(({ code, message }) => {
      // The functions raise P0001 if the event was resolved in between.
      if (code !== "P0001") faults.push(`${name}: ${code} ${message}`);
    });
    await sleep(pauseMs);
  }

  await sql.end();
  return { name, times, faults };
}

async function fillTables(sql: Sql): Promise<void> {
  await sql`
    insert into billing.processed_events (provider, event_id, type, processed_at)
    select 'a', 'old_' || i, 'x', now() - interval '1 year'
    from generate_series(1, 20000) as i`;
  await sql`
    insert into billing.notifications (
      provider, event_id, account_id, subscription_id, next_attempt_at
    )
    select
      'a', 'owed_' || i, 'acc_1', 'sub_1',
      now() + make_interval(secs => ${SECONDS} * i / ${NOTIFICATIONS}::float)
    from generate_series(1, ${NOTIFICATIONS}) as i`;
}

/** Nothing is lost, and nothing is sent without being counted first. */
async function assertNotified(
  taken: ReadonlyMap<string, number>,
  sql: Sql,
): Promise<void> {
  const rows = await sql<Row[]>`
    select
      n.id, n.status, n.attempts,
      n.status = 'withdrawn' and case n.last_error
        when 'The subscription is active again.' then s.recovered_as_of > n.occurred_at
        when 'The subscription has ended.' then s.canceled_at is not null
      end as is_untrue
    from billing.notifications n
    left join billing.subscriptions s on s.id = n.subscription_id`;

  const wrong = rows.filter(({ id, status, attempts, is_untrue }) => {
    const times = taken.get(id) ?? 0;
    // One that was true when it was tried may be withdrawn before the next try.
    const isDone = status === "sent" ? times > 0 : is_untrue;
    return !isDone || times > attempts;
  });
  assertEquals(wrong.map((row) => [row, taken.get(row.id)]), []);
}
