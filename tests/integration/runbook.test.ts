/**
 * The SQL in the runbook, the other pages and the snippets runs with the role
 * of the SQL editor, and the runbook lists every error code.
 */
import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import type postgres from "postgres";
import { ERRORS } from "../../supabase/functions/_shared/billing/errors.ts";
import { describeEvent } from "../../supabase/functions/_shared/billing/formats/format.ts";
import { stripe } from "../../supabase/functions/_shared/billing/formats/stripe.ts";
import { edited } from "../support/edited.ts";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { RIGHTS } from "../support/app_page.ts";
import { REALTIME_SQL } from "../support/supabase_extensions.ts";
import { everySqlBlock, fillIn } from "../support/docs.ts";
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
  "your name": "somebody",
  "reason": "a test of ours",
  "project-ref": "abcdefghijklmnopqrst",
  "pid": "0",
  "trigger": "user",
  "webhook url": "https://hooks.slack.com/services/T/B/X",
};

// tests/deploy/switch_page.test.ts and handlers.test.ts run those of these pages, in
// their order and with the tables that they are about.
const blocks = everySqlBlock().filter(({ place }) =>
  !/^(switch|handlers)\.md:/.test(place)
);

const creation = subscriptionEvent("customer.subscription.created", {
  id: EVENT,
  subscription,
});

/** Files an event as one that failed. */
async function file(
  event: { id: string; type: string },
  { code, tx, indent }: {
    code: string;
    tx: postgres.TransactionSql;
    indent?: number | undefined;
  },
): Promise<void> {
  const { kind, ...ids } = describeEvent(event, stripe);
  await tx`
    select public.billing_record_failed_event(
      p_provider => 'a', p_event_id => ${event.id},
      p_body => ${JSON.stringify(event, null, indent)},
      p_body_encoding => 'text', p_error_code => ${code},
      p_error => 'Failed', p_type => ${event.type}, p_kind => ${kind ?? null},
      p_subscription_id => ${ids.subscription_id ?? null},
      p_customer_id => ${ids.customer_id ?? null},
      p_account_id => ${ids.account_id ?? null}
    )`;
}

/** Something of everything that the blocks ask about or change. */
async function makeFixtures(tx: postgres.TransactionSql): Promise<void> {
  const broken = edited(creation, { "data.object.metadata": {} });
  await file(broken, { code: "event_invalid", tx });
  await file(invoiceEvent({ subscription }), {
    code: "subscription_unknown",
    tx,
  });
  await file(invoiceEvent(), { code: "deployment_fault", tx });
  await tx`
    insert into billing.notifications (provider, event_id, account_id, subscription_id, status)
    values ('a', 'evt_dead', 'acc_9', ${subscription}, 'dead')`;
  // The pages' examples of where accounts may be kept.
  await tx`create table public.teams (id uuid, billing_email text)`;
  await tx`create table public.team_members (team_id uuid, user_id uuid)`;
  await tx`create table public.documents (account_id text)`;
  await tx.unsafe(RIGHTS).simple();
  await tx.unsafe(REALTIME_SQL).simple();
  await tx`
    create table public.customers (account_id uuid, stripe_customer_id text)`;
}

/** pg_cron and pg_net, as far as they write down jobs and requests. */
async function makeExtensions(tx: postgres.TransactionSql): Promise<void> {
  for (const name of ["pg_cron.sql", "pg_net.sql"]) {
    const file = new URL(`../support/extensions/${name}`, import.meta.url);
    await tx.unsafe(await Deno.readTextFile(file)).simple();
  }
}

/** Runs it in a transaction of its own, which comes to nothing. */
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
  const [what, age, isSilent] of [
    ["an event of this hour", "1 minute", false],
    ["no event for more than a day", "25 hours", true],
    ["no event at all", null, true],
  ] as const
) {
  Deno.test(`with ${what}, the runbook's monitor and job ${isSilent ? "tell" : "are silent"}`, async () => {
    await tryOut(async (tx) => {
      await makeExtensions(tx);
      await tx`delete from billing.processed_events`;
      await tx`
        insert into billing.processed_events (provider, event_id, type, processed_at)
        select 'a', 'evt_1', 'x', now() - t.age
        from (select ${age}::interval as age) as t where t.age is not null`;
      const [monitor] = await tx.unsafe(blockWith("as events_arrive"));
      assertEquals(monitor?.["events_arrive"], !isSilent);

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
          /^Billing: no event was applied since (?:20|the beginning)/,
        );
      }
      await tx.unsafe(blockWith("cron.unschedule(")).simple();
      assertEquals((await tx`select from cron.job`).length, 0);
    });
  });
}

function blockWith(text: string, values: object = {}): string {
  const found = blocks.find(({ sql }) => sql.includes(text));
  assert(found !== undefined, text);
  return fillIn(found.sql, { ...VALUES, ...values });
}

Deno.test("the pages and the snippets have SQL to run", () => {
  const found = (place: RegExp) =>
    blocks.filter((block) => place.test(block.place)).length;
  assert(found(/^runbook/) > 20 && found(/^notifications/) > 2);
  assert(found(/\.sql$/) >= 6);
});

Deno.test("a failure that was resolved by mistake can be opened again", async () => {
  await tryOut(async (tx) => {
    const opened = async () =>
      (await tx`
        select error_code from billing.open_failures where event_id = ${EVENT}`)
        .map((row) => row["error_code"]);
    await tx.unsafe(blockWith("resolve_failed_event(")).simple();
    assertEquals(await opened(), []);
    await tx.unsafe(blockWith("resolution = 'by hand'")).simple();
    assertEquals(await opened(), ["event_invalid"]);
  });
});

Deno.test("what waits for a rate limit can be sent at once, but nothing that is being sent", async () => {
  const due = await tryOut(async (tx) => {
    await tx`
      insert into billing.notifications
        (provider, event_id, account_id, subscription_id, next_attempt_at)
      values
        ('a', 'evt_limited', 'acc_9', 'sub_9', now() + interval '1 day'),
        ('a', 'evt_claimed', 'acc_9', 'sub_9', now() + interval '1 minute')`;
    await tx.unsafe(blockWith("delete from billing.pauses;")).simple();
    return await tx`
      select event_id from billing.notifications
      where status = 'pending' and next_attempt_at <= now()
        and event_id in ('evt_limited', 'evt_claimed')`;
  });
  assertEquals(due.map((row) => row["event_id"]), ["evt_limited"]);
});

Deno.test("the function of stripe.md knows the account of a customer", async () => {
  const account = crypto.randomUUID();
  const found = await tryOut(async (tx) => {
    await tx`insert into public.customers values (${account}, 'cus_9')`;
    await tx`grant select on public.customers to service_role`;
    await tx.unsafe(blockWith("from public.customers")).simple();
    await tx`set local role service_role`;
    return await tx`
      select public.billing_account_of_customer('a', c) as account
      from unnest(array['cus_9', 'cus_none']) as c`;
  });
  assertEquals(found.map((row) => row["account"]), [account, null]);
});

/** The failed update of a stranger, of which only these parts name the account. */
function strangersUpdate(parts: Parameters<typeof subscriptionEvent>[1]) {
  return subscriptionEvent("customer.subscription.updated", {
    subscription: uniqueId("sub"),
    account: "acc_none",
    customer: uniqueId("cus"),
    ...parts,
  });
}

/** Makes something of an account in every table that can hold any. */
async function makeAccount(
  account: string,
  tx: postgres.TransactionSql,
): Promise<void> {
  const subscription = uniqueId("sub");
  const customer = uniqueId("cus");
  const its = { subscription, account, customer };
  const applied = [
    subscriptionEvent("customer.subscription.created", its),
    invoiceEvent(its),
  ].map((event, i) => ({
    ...stripe.read(event, { planItem: "first", isHandled: true }).data,
    provider: "a",
    place: i,
  }));
  await tx`
    select public.billing_apply_events(${
    JSON.stringify(applied)
  }::text::jsonb)`;

  const nul = { "data.object.description": "\u0000" };
  const repaired = strangersUpdate({ account });
  for (
    const [event, indent] of [
      [strangersUpdate({ account })],
      [strangersUpdate({ subscription })],
      [strangersUpdate({ customer })],
      [edited(strangersUpdate({}), {
        "data.object.customer": { id: customer, object: "customer" },
      })],
      [invoiceEvent({ ...its, account: "acc_none", customer: null })],
      // Named where no column has it from.
      [edited(strangersUpdate({}), {
        "data.object.items.data.0.metadata": { accountId: account },
      })],
      // What jsonb cannot hold is stored as text, with the spaces that it had.
      [edited(strangersUpdate({ account }), nul)],
      [edited(strangersUpdate({ account }), nul), 2],
      [repaired],
    ] as const
  ) {
    await file(event, { code: "event_invalid", tx, indent });
  }
  const repair = edited(repaired, {
    "data.object.metadata.accountId": "acc_other",
  });
  await tx`
    update billing.failed_events
    set payload = ${JSON.stringify(repair)}::text::jsonb
    where event_id = ${repaired.id}`;
}

Deno.test("the runbook's statement deletes all of an account but its events' IDs, and nothing of another", async () => {
  await tryOut(async (tx) => {
    const tables = await tx<{ name: string }[]>`
      select 'billing.' || tablename as name from pg_tables
      where schemaname = 'billing' and tablename not in (
        'processed_events', 'erasures', 'erasure_key'
      )`;
    async function everyRow() {
      const rows: Record<string, string[]> = {};
      for (const { name } of tables) {
        const found = await tx`select t::text as row from ${tx(name)} t`;
        rows[name] = found.map((it) => String(it["row"])).sort();
      }
      return rows;
    }
    const ledger = async () =>
      (await tx`select from billing.processed_events`).length;
    // Every row is compared, and other tests leave a hundred thousand.
    await tx`truncate ${tx(tables.map(({ name }) => name))}`;
    await makeAccount("acc_other", tx);
    const before = await everyRow();
    assertEquals(before["billing.failed_events"]?.length, 9);
    // An event has such texts elsewhere, too: prices and statuses.
    for (const account of ["acc_1", "1900", "19000", "active", `it's "so"`]) {
      await makeAccount(account, tx);
      await tx`
        update billing.subscriptions set status = 'canceled'
        where account_id = ${account}`;
      const events = await ledger();
      const id = account.replaceAll("'", "''");
      await tx.unsafe(
        blockWith("select billing.erase_account(", { "account id": id }),
      );
      assertEquals(await everyRow(), before, account);
      assertEquals(await ledger(), events);
    }
  });
});

for (const repair of repairs()) {
  Deno.test(`${repair.place} repairs a creation, whatever its metadata`, async () => {
    for (
      const metadata of [undefined, {}, null, { team: "red" }, {
        accountId: "",
      }]
    ) {
      const repaired = await tryOut(async (tx) => {
        const broken = edited(creation, { "data.object.metadata": metadata });
        await file(broken, { code: "event_invalid", tx });
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

function repairs() {
  const found = blocks.filter(({ sql }) =>
    sql.includes("jsonb_set(") && sql.includes('"accountId"')
  );
  assert(found.length >= 2, "the runbook and a snippet repair account ids");
  return found;
}

Deno.test("the SQL in the docs uses only error codes that exist", () => {
  const asked = blocks.flatMap(({ sql }) =>
    Array.from(
      sql.matchAll(/error_code\s*(?:=>?|in)\s*\(?((?:'\w+'(?:,\s*)?)+)/g),
      (match) => match[1]!.match(/\w+/g) ?? [],
    )
  ).flat();
  assert(asked.length >= 4);
  assertEquals(asked.filter((code) => !(code in ERRORS)), []);
});
