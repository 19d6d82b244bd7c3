import { setTimeout as sleep } from "node:timers/promises";
import { assert, assertEquals } from "@std/assert";
import { functionEnvironment } from "../../scripts/common/environment.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/templates.ts";
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

Deno.test("a handler that runs deallocate fails no other event", async () => {
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

const TIMEOUT = /raised 57014: canceling statement due to statement timeout$/;

Deno.test("60 handlers that sleep for 5 s hurt no other event", async () => {
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
  await handle(HARM, "perform pg_sleep(5);");
  await forget();

  let isOver = false;
  async function sendBuiltIn() {
    for (; !isOver; await sleep(50)) await sendEach("updated");
  }
  const others = sendBuiltIn();
  const ids = Array.from({ length: 60 }, () => uniqueId("evt"));
  const answers = await Promise.all(ids.map(async (id) => {
    const { status } = await deliver(url, { id, type: HARM });
    const [row] = await sql`
      select concat(error_code, ' ', error) as failure
      from billing.failed_events where event_id = ${id}`;
    return `${status} ${row?.["failure"] ?? ""}`;
  })).finally(() => isOver = true);
  await others;

  const timedOut = answers.filter((text) =>
    text.startsWith("500 apply_failed ") && TIMEOUT.test(text)
  );
  // What has waited too long is not stored. On a busy machine, a call may take too long.
  const late = answers.filter((text) =>
    /^503 (database_unavailable .*)?$/.test(text)
  );
  assertEquals(timedOut.length + late.length, ids.length, `${answers}`);
  assert(timedOut.length > 0 && late.includes("503 "), `${answers}`);

  const { runs, effects } = await done();
  assertEquals(effects, 0);
  // No run is repeated.
  assert(runs >= timedOut.length && runs <= ids.length, `${runs} runs`);

  await handle(HARM);
  await Promise.all([
    sendEach("updated"),
    ...ids.map(() => send({ id: uniqueId("evt"), type: HARM })),
  ]);
  console.log(`${runs} runs beside ${statuses.length} other events`);
  assertEquals(statuses.filter((status) => status !== 200), []);
});
