/**
 * The app's own handlers, when they fail, and when services are killed.
 *
 * `HANDLED_EVENTS=2000 deno task test tests/faults/handlers.test.ts` has more events.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { assert, assertEquals } from "@std/assert";
import { functionEnvironment } from "../../scripts/common/environment.ts";
import { paymentEvent } from "../../scripts/events/payment_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { handlerName } from "../../supabase/functions/_shared/billing/events/event_settings.ts";
import { deliverAll } from "../property/histories/deliver_all.ts";
import { eventually } from "../support/hang_limit.ts";
import { freshSeed, seededRandom, shuffled } from "../support/random.ts";
import { deliver, post } from "../support/send.ts";
import { killFunction, startOwnStack } from "../support/stacks.ts";

const EVENTS = Number(Deno.env.get("HANDLED_EVENTS") ?? "100");
const CONNECTIONS = 32;
const REFUND = "charge.refunded";
/** This type has an effect of its own besides the handler's. */
const CREATION = "customer.subscription.created";
const HARM = "harm.done";

const env = {
  ...functionEnvironment({}),
  HANDLE_EVENT_TYPES: [REFUND, CREATION, HARM].join(),
};
const started = await startOwnStack({ env });
const { stack, sql } = started;
Deno.test.afterAll(() => started[Symbol.asyncDispose]());
const url = `${stack.urls.webhookProcess}/billing-webhook`;
const headers = { apikey: stack.keys.secret };

// The table has no key, so that an effect that is done twice shows. The sequence also
// counts the runs that are rolled back.
await sql.unsafe(`
  create table public.effects (event_id text);
  grant insert on public.effects to service_role;
  create sequence public.runs;
  grant usage on public.runs to service_role`).simple();

async function handle(type: string, body = ""): Promise<void> {
  const name = handlerName(type);
  await sql.unsafe(`
    create or replace function billing.${name}(provider text, event jsonb)
    returns void language plpgsql as $$
    begin
      perform nextval('public.runs');
      insert into public.effects values (event ->> 'id');
      ${body}
    end $$`);
}

async function forget(): Promise<void> {
  await sql`truncate public.effects, billing.failed_events`;
  await sql`select setval('public.runs', 1, false)`;
}

async function done() {
  const [row] = await sql`select nextval('public.runs')::int - 1 as runs`;
  const rows = await sql<{ event_id: string; times: number }[]>`
    select event_id, count(*)::int as times from public.effects group by 1`;
  const effects = new Map(rows.map(({ event_id, times }) => [event_id, times]));
  return { runs: row?.["runs"] as number, effects };
}

/** Codes that mean something here, to PostgREST or to PL/pgSQL, and some others. */
const STATES =
  `08006 20000 23505 25006 26000 40001 40P01 42501 42883 53300 55P03 57014 57P01
  P0001 P0004 XX000 99999 BW000 BW001 BW004 BW005 BW006 BW007 PT200 PT418 PGRST`
    .split(/\s+/);

interface Harm {
  readonly body: string;
  readonly count: number;
  readonly atOnce: number;
  /** Answers, each with the error that is stored. All of these come. */
  readonly expected: RegExp[];
  /** Answers that may come, too. */
  readonly allowed?: RegExp[];
}

const raised = (error: string) =>
  new RegExp(`^500 apply_failed billing\\.on_harm_done raised ${error}`);
const TIMEOUT = raised("57014: canceling statement due to statement timeout$");

const HARMS: Record<string, Harm> = {
  "sleeps for 5 s, 60 at once,": {
    body: "perform pg_sleep(5);",
    count: 60,
    atOnce: 60,
    // What has waited too long is not stored. On a busy machine, a call may take too long.
    expected: [TIMEOUT, /^503 $/],
    allowed: [/^503 database_unavailable /],
  },
  "raises any SQLSTATE": {
    body: `raise 'as told' using errcode = event ->> 'state';`,
    count: STATES.length,
    // Fewer than may run: on a busy machine, others would wait too long.
    atOnce: 4,
    expected: STATES.map((state) => raised(`${state}: as told$`)),
  },
};

Deno.test("a handler whose function runs deallocate loses its connection, and no other event fails for it", async () => {
  await sql.unsafe(`
    create or replace function public.tidy() returns void
    language plpgsql as 'begin execute ''deallocate all''; end'`);
  const subscription = uniqueId("sub");
  const others: number[] = [];
  async function sendOther(type: "created" | "updated") {
    const event = subscriptionEvent(`customer.subscription.${type}`, {
      subscription,
    });
    others.push((await deliver(url, event)).status);
  }
  await handle(CREATION);
  await sendOther("created");

  // Also if it raises an error after that.
  for (const end of ["", "raise 'late';"]) {
    await handle(HARM, `perform public.tidy(); ${end}`);
    await forget();

    for (let i = 0; i < 5; i++) {
      const id = uniqueId("evt");
      assertEquals((await deliver(url, { id, type: HARM })).status, 503);
      const [row] = await sql`
        select error from billing.failed_events
        where event_id = ${id} and error_code = 'database_unavailable'`;
      assert(/functions run deallocate/.test(row?.["error"]), row?.["error"]);

      for (let n = 0; n < 4; n++) await sendOther("updated");
    }
    assertEquals((await done()).effects.size, 0);
  }
  assertEquals(others.filter((status) => status !== 200), []);
});

for (const [does, harm] of Object.entries(HARMS)) {
  Deno.test(`a handler that ${does} hurts no other event`, async () => {
    const statuses: number[] = [];
    const send = async (event: object) => {
      statuses.push((await deliver(url, event)).status);
    };
    const subscriptions = Array.from({ length: 8 }, () => uniqueId("sub"));
    async function sendEach(type: "created" | "updated"): Promise<void> {
      const events = subscriptions.map((subscription) =>
        subscriptionEvent(`customer.subscription.${type}`, { subscription })
      );
      await Promise.all(events.map(send));
    }
    await handle(CREATION);
    await sendEach("created");
    await handle(HARM, harm.body);
    await forget();

    let isOver = false;
    async function sendBuiltIn() {
      for (; !isOver; await sleep(50)) await sendEach("updated");
    }
    const waiting = Array.from({ length: harm.count }, (_, n) => ({
      id: uniqueId("evt"),
      type: HARM,
      state: STATES[n],
    })).values();
    const answers: string[] = [];
    async function sendHarm() {
      for (const event of waiting) {
        const { status } = await deliver(url, event);
        const [row] = await sql`
          select concat(error_code, ' ', error) as failure
          from billing.failed_events where event_id = ${event.id}`;
        answers.push(`${status} ${row?.["failure"] ?? ""}`);
      }
    }
    const others = sendBuiltIn();
    await Promise.all(Array.from({ length: harm.atOnce }, sendHarm))
      .finally(() => isOver = true);
    await others;

    const { expected, allowed = [] } = harm;
    const isOneOf = (patterns: RegExp[], text: string) =>
      patterns.some((pattern) => pattern.test(text));
    const known = [...expected, ...allowed];
    assertEquals(answers.filter((answer) => !isOneOf(known, answer)), []);
    assertEquals(
      expected.filter((pattern) =>
        !answers.some((answer) => pattern.test(answer))
      ),
      [],
    );

    const { runs, effects } = await done();
    assertEquals(effects.size, 0);
    // No run is repeated.
    const ran = answers.filter((answer) => !answer.startsWith("503")).length;
    assert(runs >= ran && runs <= harm.count, `${runs} runs: ${answers}`);

    await handle(HARM);
    await Promise.all([
      sendEach("updated"),
      ...answers.map(() => send({ id: uniqueId("evt"), type: HARM })),
    ]);
    console.log(`${runs} runs beside ${statuses.length} other events`);
    assertEquals(statuses.filter((status) => status !== 200), []);
  });
}

// The last one: it leaves a pool with killed connections.
Deno.test(`each of ${EVENTS} events has its effect exactly once, whatever is killed and however often it comes or fails`, async () => {
  const seed = freshSeed();
  const random = seededRandom(seed);

  await forget();
  await sql`truncate billing.subscriptions, billing.grants`;
  const unlucky = `
    perform pg_sleep(random() * 0.02); -- time to be killed
    if random() < 0.2 then
      raise 'bad luck'
      using errcode = ('{P0001,40001,57014,55P03}'::text[])[ceil(random() * 4)];
    end if;`;
  await handle(REFUND, unlucky);
  await handle(CREATION, unlucky);

  const events = Array.from(
    { length: EVENTS },
    (_, i) => i % 2 ? subscriptionEvent(CREATION) : paymentEvent(REFUND),
  );
  const sent = events.flatMap((event) =>
    Array(Math.ceil(random() * 5)).fill({ id: event.id, body: event })
  );

  let kills = 0;
  async function killBackend() {
    const { count } = await sql`
      select pg_terminate_backend(pid) from pg_stat_activity
      where usename = 'authenticator' and query !~ '^LISTEN'
      order by state = 'active' and query ~ 'handled' desc, random() limit 1`;
    kills += count;
  }
  /** Retries as a person does. A run that was killed has left its lease. */
  async function retryAll() {
    await sql`delete from billing.leases`;
    await sql`select billing.retry_failed_events()`;
    await post(stack.urls.worker, { headers }).catch(() => {});
  }
  const statuses: Record<number, number> = { 0: 0 };
  let answers = 0;
  const disturbances: Promise<void>[] = [];
  const { deliveries } = await deliverAll(shuffled(sent, random), {
    url,
    connections: CONNECTIONS,
    // What has failed is stored, and may be left to the worker.
    takes: (status) => status === 200 || status === 500 && random() < 0.5,
    onAnswer: (_, status) => {
      statuses[status] = (statuses[status] ?? 0) + 1;
      if (status === 0) return;

      answers++;
      if (answers === EVENTS) {
        const killed = killFunction(stack.ports.webhook);
        disturbances.push(killed.then(() => stack.restartFunctions(env)));
      }
      if (answers % 40 === 0) disturbances.push(killBackend());
      if (answers % 40 === 20) disturbances.push(retryAll());
    },
  });
  await Promise.all(disturbances);
  await eventually(async () => {
    await retryAll();
    const open = await sql`select from billing.open_failures limit 1`;
    return open.length === 0;
  });

  const { runs, effects } = await done();
  console.log(
    `${deliveries} deliveries, answered ${JSON.stringify(statuses)}; ` +
      `${runs} runs, ${kills} kills; seed ${seed}`,
  );
  assert(kills > 0 && runs > EVENTS && statuses[0]! > 0);
  assertEquals(effects, new Map(events.map(({ id }) => [id, 1])));
  const records = await sql`select from billing.subscriptions`;
  assertEquals(records.length, Math.floor(EVENTS / 2));
});
