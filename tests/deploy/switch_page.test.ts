/**
 * docs/switch.md: an app with subscriptions of its own changes over to the
 * receiver by the page's commands and SQL. Its handler writes on all the time.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import postgres from "postgres";
import { REPOSITORY } from "../../scripts/common/how_started.ts";
import { localKeys } from "../../scripts/common/keys.ts";
import { signatureHeaders } from "../../scripts/common/sign.ts";
import { edgeDenoPath } from "../../scripts/dev/downloads.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { RIGHTS, sqlOf } from "../support/app_page.ts";
import { commitAll } from "../support/project_folder.ts";
import { runScript } from "../support/run_script.ts";
import { post } from "../support/send.ts";
import { setting } from "../support/test_environment.ts";
import { withoutAccount } from "../support/without_account.ts";
import { SIGNING_SECRET, type Typed } from "./deployer.ts";
import { createHostedProject } from "./hosted_project.ts";
import { ACCESS_TOKEN } from "./management_api.ts";
import { readBlocks } from "./page_blocks.ts";
import { makeStarterProject } from "./starter_project.ts";
import {
  handle,
  serveStripe,
  type Subscription,
  subscriptionOf,
  USERS,
} from "./starter_stripe.ts";

const PAGE = "docs/switch.md";
const [ACTIVE, PAST_DUE, LATER] = USERS as [string, string, string];
const env = { SUPABASE_YES: "1", SUPABASE_ACCESS_TOKEN: ACCESS_TOKEN };
const { block, left, count } = readBlocks(PAGE);

function assertWorks({ code, said }: Typed): void {
  assertEquals(code, 0, said);
}

Deno.test("docs/switch.md: its steps lead from an app's own table to the receiver's", async (test) => {
  const port = Number(new URL(setting("TEST_DATABASE_URL")).port);
  await using hosted = await createHostedProject({ port, name: "starter" });
  await using app = await makeStarterProject(hosted, { localPort: port });
  const sql = postgres(hosted.databaseUrl, { max: 1, onnotice() {} });
  await using _sql = { [Symbol.asyncDispose]: () => sql.end() };
  const subscriptions = new Map<string, Subscription>();
  const add = `deno run -A '${REPOSITORY}/scripts/add.ts' . --yes`;
  const push = "supabase db push --remote";

  /** A change at Stripe, which the old handler takes. */
  async function change(user: string, status: string) {
    const subscription = subscriptionOf(user, status);
    subscriptions.set(subscription.id, subscription);
    await handle(hosted, subscription);
    return subscription;
  }

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

  assertWorks(
    await app.type(
      `supabase link --project-ref <project-ref>\n${push}`,
      { env },
    ),
  );
  for (const id of USERS) {
    await sql`insert into auth.users values (${id})`;
    const customer = `cus_${id.slice(0, 8)}`;
    await sql`insert into customers values (${id}, ${customer})`;
  }
  await sql`insert into prices values ('price_1', 500)`;
  await change(ACTIVE, "active");
  await change(PAST_DUE, "past_due");

  await test.step("1. The receiver is added, and the handler writes on", async () => {
    await commitAll(app.path);
    const added = await app.type(add);
    assertWorks(added);
    assertEquals(added.said.includes("Left for you"), false, added.said);
    assertWorks(
      await app.type(
        `${push}
supabase functions deploy billing-webhook --use-api
supabase functions deploy billing-worker --use-api`,
        { env },
      ),
    );
    const { secrets } = hosted.api;
    secrets.set("PROVIDER_A_SIGNATURE_HEADER", "stripe-signature");
    secrets.set("PROVIDER_A_SIGNING_SECRET", SIGNING_SECRET);
    await change(ACTIVE, "trialing");
    await change(ACTIVE, "active");
    assertEquals(await postsOf("authenticated", ACTIVE), ["Free", "Paid"]);
    assertEquals(await postsOf("authenticated", PAST_DUE), ["Free"]);
  });

  await test.step("2. Whose it is: a user cannot say so", async () => {
    await app.migrate("accounts", block("create or replace function"));
    const [may] = await sql`
      select has_table_privilege('authenticated', 'customers', 'update')`;
    assertEquals(may, { has_table_privilege: false });
  });

  await using _running = await hosted.run({ denoPath: await edgeDenoPath() });
  await test.step("3. The import finds every account", async () => {
    await using stripe = serveStripe(subscriptions);
    const { secret } = await localKeys();
    const { code, out, err } = await runScript("import", {
      args: ["--mode", "test", "--stripe-url", stripe.url],
      env: { SUPABASE_URL: hosted.url, SUPABASE_SECRET_KEY: secret },
    });
    assertEquals(code, 0, out + err);
  });

  const compare = block("select");
  await test.step("4. Both have an event, 5. and agree", async () => {
    assertEquals([...await sql.unsafe(compare)], []);
    const subscription = await change(LATER, "active");
    const [missing, ...more] = await sql.unsafe(compare);
    assertEquals([missing?.["id"], more], [subscription.id, []]);
    const event = withoutAccount(
      subscriptionEvent("customer.subscription.created", {
        subscription: subscription.id,
        customer: subscription.customer,
        plan: "price_1",
        periodEnd: subscription.current_period_end ?? 0,
        status: "active",
      }),
    );
    const body = JSON.stringify(event);
    const { status, body: said } = await post(
      `${hosted.url}/functions/v1/billing-webhook`,
      {
        headers: await signatureHeaders({
          scheme: "stripe",
          header: "stripe-signature",
          secret: SIGNING_SECRET,
          body,
        }),
        body,
      },
    );
    assertEquals([status, said], [200, "OK"]);
    assertEquals([...await sql.unsafe(compare)], []);
    for (
      const difference of [
        "status = 'canceled'",
        "account_id = 'another'",
        "plan_id = 'another'",
        "current_period_end = now()",
      ]
    ) {
      const undo = new Error("undo");
      await sql.begin(async (transaction) => {
        await transaction.unsafe(
          `update billing.subscriptions set ${difference} where id = '${subscription.id}'`,
        );
        const rows = await transaction.unsafe(compare);
        assertEquals(rows.map(({ id }) => id), [subscription.id], difference);
        throw undo;
      }).catch((error) => {
        if (error !== undo) throw error;
      });
    }
  });

  await test.step("6. The same users read the same posts", async () => {
    await sql.unsafe(RIGHTS).simple();
    await sql.unsafe(sqlOf('policy "Users read their own')).simple();
    await app.migrate("policies", block("drop policy"));
    assertEquals(await postsOf("authenticated", ACTIVE), ["Free", "Paid"]);
    assertEquals(await postsOf("authenticated", LATER), ["Free", "Paid"]);
    assertEquals(await postsOf("authenticated", PAST_DUE), ["Free"]);
    assertEquals(await postsOf("anon"), ["Free"]);
  });

  await test.step("7. The old table can go", async () => {
    await app.migrate("drop", "drop table public.subscriptions;");
    assertEquals(await postsOf("authenticated", ACTIVE), ["Free", "Paid"]);
  });
  assertEquals(hosted.api.faults, []);
});

Deno.test("docs/switch.md: every block is run here", () => {
  assertEquals(left(), []);
  assertEquals(count, 3);
});
