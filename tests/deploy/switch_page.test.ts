/**
 * docs/switch.md: the page's SQL takes an app with subscriptions of its own over
 * to the receiver's. Its commands are those of docs/deploy.md.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import postgres from "postgres";
import { RIGHTS, sqlOf } from "../support/app_page.ts";
import { createDatabase, migrate } from "../support/databases.ts";
import { setting } from "../support/test_environment.ts";
import { readBlocks } from "./page_blocks.ts";
import { AUTH_USERS, STARTER_MIGRATIONS } from "./starter_project.ts";

const { block, left } = readBlocks("docs/switch.md");
const compare = block("select");
const [ACTIVE, PAST_DUE] = [1, 2].map((n) =>
  `1111111${n}-1111-4111-8111-111111111111`
) as [string, string];

Deno.test("docs/switch.md: its SQL leads from an app's own table to the receiver's", async (test) => {
  const port = Number(new URL(setting("TEST_DATABASE_URL")).port);
  const { url } = await createDatabase(port, {
    name: "starter",
    sqlBefore: [AUTH_USERS, ...STARTER_MIGRATIONS].join(";"),
  });
  await migrate(url);
  const sql = postgres(url, { max: 1, onnotice() {} });
  await using _sql = { [Symbol.asyncDispose]: () => sql.end() };
  await sql`insert into prices values ('price_1', 500)`;

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
