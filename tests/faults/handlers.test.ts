/** The app's own handlers, when they fail or take long. */
import { setTimeout as sleep } from "node:timers/promises";
import { assert, assertEquals } from "@std/assert";
import { functionEnvironment } from "../../scripts/common/environment.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { handlerName } from "../../supabase/functions/_shared/billing/events/event_settings.ts";
import { deliver } from "../support/send.ts";
import { startOwnStack } from "../support/stacks.ts";

/** This type has an effect of its own besides the handler's. */
const CREATION = "customer.subscription.created";
const HARM = "harm.done";

const env = {
  ...functionEnvironment({}),
  HANDLE_EVENT_TYPES: [CREATION, HARM].join(),
};
const started = await startOwnStack({ env });
const { stack, sql } = started;
Deno.test.afterAll(() => started[Symbol.asyncDispose]());
const url = `${stack.urls.webhookProcess}/billing-webhook`;

// The sequence also counts the runs that are rolled back.
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
  const [row] = await sql`
    select nextval('public.runs')::int - 1 as runs,
      (select count(*)::int from public.effects) as effects`;
  return row as { runs: number; effects: number };
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
    assertEquals((await done()).effects, 0);
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
    assertEquals(effects, 0);
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
