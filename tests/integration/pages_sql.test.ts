/** The SQL in the pages and the snippets runs with the role of the SQL editor. */
import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import type postgres from "postgres";
import { describeEvent } from "../../supabase/functions/_shared/billing/events/format.ts";
import { stripe } from "../../supabase/functions/_shared/billing/events/stripe.ts";
import { edited } from "../support/edited.ts";
import { invoiceEvent, uniqueId } from "../../scripts/events/templates.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { RIGHTS } from "../support/app_page.ts";
import { REALTIME_SQL } from "../support/supabase_extensions.ts";
import { everySqlBlock, fillIn, readPage, SNIPPETS } from "../support/docs.ts";
import { recordFailure } from "../support/queues.ts";
import { connect } from "../support/tables.ts";

const sql = connect();
Deno.test.afterAll(() => sql.end());

const EVENT = uniqueId("evt");
const subscription = uniqueId("sub");
const VALUES = {
  "event id": EVENT,
  "subscription id": subscription,
  "account id": "acc_9",
  "customer id": "cus_9",
  "grant id": "grant_9",
  "your name": "somebody",
  "reason": "a test of ours",
  "project-ref": "abcdefghijklmnopqrst",
  "pid": "0",
  "trigger": "user",
  "function": "billing.account_email",
  "webhook url": "https://hooks.slack.com/services/T/B/X",
};

// handlers.test.ts runs those of its page in their order. A handler's test needs the handler.
const blocks = everySqlBlock().filter(({ place, sql }) =>
  !place.startsWith("handlers.md:") && !sql.startsWith("begin;")
);

const creation = subscriptionEvent("customer.subscription.created", {
  id: EVENT,
  subscription,
});

async function file(
  event: { id: string },
  error_code: string,
  tx: postgres.TransactionSql,
): Promise<void> {
  await recordFailure(tx, {
    event_id: event.id,
    body: JSON.stringify(event),
    error_code,
    ...describeEvent(event, stripe),
  });
}

/** The table of Vercel's starter that docs/reconcile.md compares. */
const STARTER = `
  create table public.subscriptions (
    id text, user_id uuid, status text, price_id text, current_period_end timestamptz
  );`;

async function makeFixtures(tx: postgres.TransactionSql): Promise<void> {
  const broken = edited(creation, { "data.object.metadata": {} });
  await file(broken, "account_unknown", tx);
  await file(invoiceEvent({ subscription }), "subscription_unknown", tx);
  await file(invoiceEvent(), "deployment_fault", tx);
  await tx`
    insert into billing.notifications (provider, event_id, account_id, subscription_id, status)
    values ('a', 'evt_dead', 'acc_9', ${subscription}, 'dead')`;
  await tx`
    with made as (
      insert into billing.subscriptions (id, provider, account_id, status, plan_id)
      values ('grant_9', 'manual', 'acc_10', 'active', 'prod_pro') returning id
    )
    insert into billing.grants (subscription_id, reason, granted_by)
    select id, 'a test', 'somebody' from made`;
  // The pages' examples of where accounts may be kept.
  await tx`create table public.teams (id uuid, billing_email text)`;
  await tx`create table public.team_members (team_id uuid, user_id uuid)`;
  await tx`create table public.documents (account_id text)`;
  await tx.unsafe(RIGHTS).simple();
  await tx.unsafe(REALTIME_SQL).simple();
  await tx`
    create table public.customers (account_id uuid, stripe_customer_id text, id uuid)`;
  await tx.unsafe(STARTER).simple();
  // Another test may be using these.
  await tx.unsafe(`
    drop table if exists public.credits;
    drop function if exists billing.on_checkout_session_completed(text, jsonb)`)
    .simple();
}

async function makeExtensions(tx: postgres.TransactionSql): Promise<void> {
  for (const name of ["pg_cron.sql", "pg_net.sql"]) {
    const file = new URL(`../support/extensions/${name}`, import.meta.url);
    await tx.unsafe(await Deno.readTextFile(file)).simple();
  }
}

async function tryOut<T>(
  work: (tx: postgres.TransactionSql) => Promise<T>,
): Promise<T> {
  const nothing = new Error("nothing of it stays");
  let result: { value: T } | undefined;
  await sql.begin(async (tx) => {
    await makeFixtures(tx);
    result = { value: await work(tx) };
    throw nothing;
  }).catch((error) => {
    if (error !== nothing) throw error;
  });
  return result!.value;
}

for (const { place, sql: block } of blocks) {
  if (/\bbilling\.schedule_worker\(/.test(block)) {
    Deno.test(`${place} asks for the extensions that a plain Postgres lacks, and for nothing else`, async () => {
      await assertRejects(
        () => tryOut((tx) => tx.unsafe(fillIn(block, VALUES)).simple()),
        Error,
        'extension "pg_cron" is not available',
      );
    });
  } else if (block.includes("cron.schedule('billing-prune'")) {
    Deno.test(`${place} replaces a job of billing.schedule_worker by one that runs`, async () => {
      await tryOut(async (tx) => {
        await makeExtensions(tx);
        await tx.unsafe(fillIn(block, VALUES)).simple();
        const jobs = await tx`select jobname, schedule, command from cron.job`;
        assertEquals(jobs.length, 1);
        const { jobname: name, schedule, command } = jobs[0]!;

        const [made] = await tx`
          select pg_get_functiondef('billing.schedule_worker'::regproc) as by`;
        assertStringIncludes(made!["by"], `('${name}', '${schedule}', `);
        await tx.unsafe(command).simple();
      });
    });
  } else if (!block.includes("billing-silence")) {
    Deno.test(`${place} runs`, async () => {
      await tryOut((tx) => tx.unsafe(fillIn(block, VALUES)).simple());
    });
  }
}

for (
  const [what, age, ran, isSilent] of [
    ["an event of this hour", "1 minute", "1 minute", false],
    ["no event for more than a day", "25 hours", "1 minute", true],
    ["no event and no run at all", null, null, true],
    ["no run of the worker", "1 minute", "11 minutes", true],
  ] as const
) {
  Deno.test(`with ${what}, docs/operate.md's job ${isSilent ? "tells" : "is silent"}`, async () => {
    await tryOut(async (tx) => {
      await makeExtensions(tx);
      await tx`delete from billing.processed_events`;
      await tx`
        insert into billing.processed_events (provider, event_id, type, processed_at)
        select 'a', 'evt_1', 'x', now() - t.age
        from (select ${age}::interval as age) as t where t.age is not null`;
      await tx`delete from billing.leases`;
      await tx`
        insert into billing.leases (queue, lease_id, held_until, scheduled_run_at)
        select queue, gen_random_uuid(), now(), now() - ${ran}::interval
        from unnest('{retries,notifications}'::text[]) as queue`;
      await tx.unsafe(blockWith("schedule('billing-silence', '")).simple();
      const [job] = await tx`select command from cron.job`;
      await tx.unsafe(job?.["command"]).simple();

      const requests = await tx`
        select url, convert_from(body, 'UTF8')::jsonb ->> 'text' as text
        from net.http_request_queue`;
      assertEquals(requests.length, isSilent ? 1 : 0);
      if (isSilent) {
        assertEquals(requests[0]?.["url"], VALUES["webhook url"]);
        assertMatch(
          requests[0]?.["text"],
          /^Billing: last event (?:20|never).*, last run of the worker (?:20|never)/,
        );
      }

      await tx.unsafe(blockWith("cron.unschedule(")).simple();
      assertEquals((await tx`select from cron.job`).length, 0);
    });
  });
}

function blockWith(text: string): string {
  const found = blocks.find(({ sql }) => sql.includes(text));
  assert(found !== undefined, text);
  return fillIn(found.sql, VALUES);
}

Deno.test("the pages and the snippets have SQL to run", () => {
  const found = (place: RegExp) =>
    blocks.filter((block) => place.test(block.place)).length;
  assert(found(/^operate/) > 20 && found(/^notifications/) > 1);
  assertEquals(found(/^snippet/), 6);
});

Deno.test("the snippets, run as a whole by mistake, change nothing", async () => {
  await assertRejects(
    () => tryOut((tx) => tx.unsafe(readPage(SNIPPETS)).simple()),
    Error,
    "<event id>",
  );
});

Deno.test("docs/operate.md finds what a missing account ID made fail", async () => {
  await tryOut(async (tx) => {
    const found = await tx.unsafe(blockWith("'creation_pending')"));
    assertEquals(
      found.map((row) => row["subscription_id"]),
      [subscription, subscription],
    );
    const { customer } = creation.data.object;
    assertEquals(found[0]?.["customer_id"], customer);

    // Beside an app's own table of customers, the repair counts, too.
    await tx.unsafe(blockWith("function billing.account_of_customer")).simple();
    await tx.unsafe(blockWith("select provider, customer_id, '")).simple();
    const known =
      await tx`select billing.account_of_customer('a', ${customer})`;
    assertEquals(known[0]?.["account_of_customer"], "acc_9");
    await tx`set constraints all immediate`;
    const waiting = await tx`
      select from billing.failed_events where retry_requested_at is not null`;
    assertEquals(waiting.length, 1);
  });
});

Deno.test("docs/reconcile.md finds who would lose access, though both tables agree", async () => {
  await tryOut(async (tx) => {
    const user = crypto.randomUUID();
    await tx`
      insert into public.subscriptions values ('sub_void', ${user}, 'active', 'p')`;
    await tx`
      insert into billing.subscriptions (id, provider, account_id, status, plan_id, paused)
      values ('sub_void', 'a', ${user}, 'active', 'p', 'void')`;
    const found = await tx.unsafe(blockWith("public.subscriptions o"));
    assert(found.some(({ id }) => id === "sub_void"));
  });
});

for (const repair of repairs()) {
  Deno.test(`${repair.place} repairs a creation, whatever its metadata`, async () => {
    const kinds = [undefined, {}, null, { team: "red" }, { accountId: "" }];
    for (const metadata of kinds) {
      const repaired = await tryOut(async (tx) => {
        const broken = edited(creation, { "data.object.metadata": metadata });
        await file(broken, "account_unknown", tx);
        await tx.unsafe(fillIn(repair.sql, VALUES)).simple();
        const [row] = await tx`
          select payload #> '{data,object,metadata}' as metadata,
            original_payload #> '{data,object,metadata}' as original
          from billing.failed_events where event_id = ${EVENT}`;
        return { ...row };
      });
      assertEquals(repaired, {
        metadata: { ...metadata, accountId: "acc_9" },
        original: metadata ?? null,
      });
    }
  });
}

Deno.test("docs/operate.md copies a moved field, also if its parent is missing", async () => {
  const items = "data.object.items.data.0";
  const moved = edited(creation, {
    [`${items}.price`]: undefined,
    [`${items}.pricing`]: { price: "price_9" },
  });
  const statement = blockWith("as moved (").replace(
    /(?<=\(values \()[^)]*/,
    "'{data,object,items,data,0,price}'::text[], 'id', '{data,object,items,data,0,pricing,price}'::text[]",
  );
  await tryOut(async (tx) => {
    await file(moved, "event_invalid", tx);
    await tx`
      update billing.failed_events
      set error = 'data.object.current_period_end is missing'`;
    await tx.unsafe(statement).simple();
    const [row] = await tx`
      select payload #>> '{data,object,items,data,0,price,id}' as price
      from billing.failed_events where event_id = ${EVENT}`;
    assertEquals(row?.["price"], "price_9");
  });
});

function repairs() {
  const found = blocks.filter(({ sql }) =>
    sql.includes("jsonb_set(") && sql.includes("'accountId'")
  );
  assert(found.length >= 2, "docs/operate.md and a snippet repair account ids");
  return found;
}
