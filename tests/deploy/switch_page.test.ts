/**
 * docs/switch.md: the page's SQL takes an app with subscriptions of its own over
 * to the receiver's. Its commands are those of docs/deploy.md.
 */
import { assertEquals } from "@std/assert";
import postgres from "postgres";
import { RIGHTS, sqlOf } from "../support/app_page.ts";
import { readBlocks } from "./page_blocks.ts";
import { createDatabase, migrate } from "../support/databases.ts";
import { setting } from "../support/test_environment.ts";

/**
 * An app that has subscriptions already, as Vercel's starter makes them, and
 * posts that only subscribers may read.
 */
const STARTER = `
  create table auth.users (id uuid primary key);
  create table customers (
    id uuid primary key references auth.users,
    stripe_customer_id text
  );
  alter table customers enable row level security;
  create policy "Users write their own customer" on customers
    for update to authenticated using (auth.uid() = id);
  grant select, update on customers to authenticated;
  create type subscription_status as enum ('trialing', 'active', 'past_due');
  create table subscriptions (
    id text primary key,
    user_id uuid not null references auth.users,
    status subscription_status,
    price_id text,
    current_period_end timestamptz not null
  );
  alter table subscriptions enable row level security;
  create policy "Can only view own subs data." on subscriptions
    for select using (auth.uid() = user_id);
  create table posts (
    title text primary key,
    requires_active_subscription boolean not null
  );
  alter table posts enable row level security;
  create policy "Allow access based on subscription status." on posts
    for select using (
      requires_active_subscription = false
      or auth.uid() in (
        select subscriptions.user_id from subscriptions
        where subscriptions.status in ('trialing', 'active')
      )
    );
  grant select on posts, subscriptions to anon, authenticated;
  insert into posts values ('Free', false), ('Paid', true);`;

const { block, left } = readBlocks("docs/switch.md");
const compare = block("select");
const [ACTIVE, PAST_DUE] = [1, 2].map((n) =>
  `1111111${n}-1111-4111-8111-111111111111`
) as [string, string];

Deno.test("docs/switch.md: its SQL leads from an app's own table to the receiver's", async (test) => {
  const port = Number(new URL(setting("TEST_DATABASE_URL")).port);
  const { url } = await createDatabase(port, {
    name: "starter",
    sqlBefore: STARTER,
  });
  await migrate(url);
  const sql = postgres(url, { max: 1, onnotice() {} });
  await using _sql = { [Symbol.asyncDispose]: () => sql.end() };

  /** The posts that somebody reads. */
  async function postsOf(role: string, user = "") {
    return await sql.begin(async (transaction) => {
      await transaction.unsafe(`set local role ${role}`);
      const claims = user && JSON.stringify({ sub: user });
      await transaction`
        select set_config('request.jwt.claims', ${claims}, true)`;
      const rows = await transaction`select title from posts order by 1`;
      return rows.map(({ title }) => title);
    });
  }

  await test.step("2. Whose it is: the receiver asks the table of customers, where a user cannot write", async () => {
    await sql.unsafe(block("create or replace function")).simple();
    const [may] = await sql`
      select has_table_privilege('authenticated', 'customers', 'update')`;
    assertEquals(may, { has_table_privilege: false });
  });

  const end = "2027-06-01T00:00:00Z";
  for (const [user, status] of [[ACTIVE, "active"], [PAST_DUE, "past_due"]]) {
    await test.step(`5. Compare: a subscription that is ${status}, at first in the old table only`, async () => {
      const id = `sub_${user}`;
      await sql`insert into auth.users values (${user!})`;
      await sql`insert into customers values (${user!}, ${`cus_${user}`})`;
      await sql`
        insert into subscriptions (id, user_id, status, price_id, current_period_end)
        values (${id}, ${user!}, ${status!}, 'price_1', ${end})`;
      assertEquals((await sql.unsafe(compare)).map((row) => row["id"]), [id]);
      await sql.begin(async (transaction) => {
        await transaction`set local role service_role`;
        const [answer] = await transaction`
          select outcome from public.billing_apply_events(${
          sql.json([{
            place: 1,
            provider: "a",
            event_id: `evt_${user}`,
            type: "customer.subscription.created",
            kind: "creation",
            occurred_at: "2026-06-01T00:00:00Z",
            subscription_id: id,
            account_id: null,
            report: {
              customer_id: `cus_${user}`,
              plan_id: "price_1",
              provider_status: status,
              status,
              current_period_end: end,
            },
            previous: null,
            payment: null,
          }])
        })`;
        assertEquals(answer?.["outcome"], "applied");
      });
      assertEquals([...await sql.unsafe(compare)], []);
    });
  }

  await test.step("5. Compare: each difference", async () => {
    for (
      const difference of [
        "status = 'canceled'",
        "account_id = 'another'",
        "plan_id = 'another'",
        "current_period_end = now()",
      ]
    ) {
      await sql`begin`;
      await sql.unsafe(
        `update billing.subscriptions set ${difference} where id = 'sub_${ACTIVE}'`,
      );
      const rows = await sql.unsafe(compare);
      await sql`rollback`;
      assertEquals(rows.map(({ id }) => id), [`sub_${ACTIVE}`], difference);
    }
  });

  await test.step("6. The same users read the same posts, 7. also without the old table", async () => {
    const posts = async () => [
      await postsOf("authenticated", ACTIVE),
      await postsOf("authenticated", PAST_DUE),
      await postsOf("anon"),
    ];
    const before = await posts();
    assertEquals(before, [["Free", "Paid"], ["Free"], ["Free"]]);
    await sql.unsafe(RIGHTS).simple();
    await sql.unsafe(sqlOf('policy "Users read their own')).simple();
    await sql.unsafe(block("drop policy")).simple();
    await sql`drop table public.subscriptions`;
    assertEquals(await posts(), before);
  });
  assertEquals(left(), []);
});
