/**
 * docs/app.md: its SQL, applied as in the SQL editor, lets an app's users in and
 * shows them their own data and nothing else, with the page's TypeScript.
 */
import { assertEquals } from "@std/assert";
import { createClient } from "@supabase/supabase-js";
import { localKeys } from "../../scripts/local_stack/keys.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import type { Database } from "../../supabase/functions/_shared/billing/database/database.types.ts";
import {
  applySql,
  appOf,
  type Client,
  DENIED,
  loadAppCode,
  RIGHTS,
  sqlOf,
  subscribe,
} from "../support/app_page.ts";
import { startReceiver } from "../support/functions.ts";
import { connect } from "../support/tables.ts";
import { setting } from "../support/test_environment.ts";

const OWN = '"Users read';
const DOCUMENTS = `
  create table public.documents (id text, account_id text);
  alter table public.documents enable row level security;
  grant select on public.documents to authenticated;
`;
const TEAM_MEMBERS = `
  create table public.team_members (team_id uuid, user_id uuid)`;

const WITH_FEATURE = sqlOf('"Accounts with access').replace(
  "billing_has_access((select auth.uid())::text, '3 days')",
  "billing_has_feature((select auth.uid())::text, 'documents', '3 days')",
);

const sql = connect();
const receiver = await startReceiver();
const code = await loadAppCode();

Deno.test.afterAll(async () => {
  await code[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
  await sql.end();
});

async function serverApp(): Promise<Client> {
  const { secret } = await localKeys();
  return createClient<Database>(setting("TEST_API_URL"), secret);
}

async function accountWith(columns: Record<string, unknown>): Promise<string> {
  const account = crypto.randomUUID();
  const id = await subscribe(receiver.url, account);
  await sql`update billing.subscriptions set ${sql(columns)} where id = ${id}`;
  return account;
}

async function seenBy(
  claims: Record<string, unknown> | undefined,
  view = "billing_subscriptions",
) {
  // The pages' own tables are not among the generated types.
  const { data, error } = await (await appOf(claims))
    .from(view as "billing_subscriptions").select("id").order("id");
  return error ? error.code : data.map(({ id }) => id);
}

function answer(app: Client, account: string) {
  return code.hasAccess(app, account).catch(({ code }) => code);
}

Deno.test("a user reads their own subscription that counts, and no other", async () => {
  const [ann, ben] = [crypto.randomUUID(), crypto.randomUUID()];
  const id = await subscribe(receiver.url, ann);
  const other = await subscribe(receiver.url, ben);
  await using _ = await applySql(sql, RIGHTS, sqlOf(OWN));
  const planOf = async (sub: string) => code.readPlan(await appOf({ sub }));

  const plan = {
    id,
    status: "active",
    provider_status: "trialing",
    plan_id: "price_pro",
    quantity: 5,
    cancel_at: "2027-05-03T10:00:00+00:00",
    trial_end: "2027-05-04T10:00:00+00:00",
    current_period_end: "2027-05-05T10:00:00+00:00",
  };
  await sql`update billing.subscriptions set ${sql(plan)} where id = ${id}`;
  assertEquals(await planOf(ann), plan);
  const items = (await appOf({ sub: ann })).from("billing_subscription_items");
  const { data } = await items.select();
  assertEquals(data?.map((item) => item.subscription_id), [id]);
  assertEquals((await planOf(ben))?.["id"], other);
  assertEquals(await planOf(crypto.randomUUID()), null);

  const hidden = await subscribe(receiver.url, ann);
  for (
    const why of [
      { status: "canceled", provider_status: "canceled" },
      { status: "active", provider_status: "incomplete" },
      // It counts with a grace.
      { status: "past_due", provider_status: "past_due" },
    ]
  ) {
    const columns = { ...why, current_period_end: "2030-01-01" };
    await sql`
      update billing.subscriptions set ${sql(columns)} where id = ${hidden}`;
    assertEquals(await planOf(ann), plan, `Hidden by ${why.provider_status}`);
  }

  assertEquals(await seenBy({ sub: ann }), [id, hidden].sort());
  assertEquals(await seenBy({ sub: ben }), [other]);
  assertEquals(await seenBy({}), []);
  assertEquals(await seenBy(undefined), DENIED, "Nobody is signed in");
});

Deno.test("a user writes nothing, and reads no other column, view or function", async () => {
  const ann = crypto.randomUUID();
  const id = await subscribe(receiver.url, ann);
  const app = await appOf({ sub: ann });
  const subscriptions = app.from("billing_subscriptions");
  assertEquals(await seenBy({ sub: ann }), DENIED, "Without the page's SQL");
  assertEquals(await answer(app, ann), DENIED);

  await using _ = await applySql(sql, RIGHTS, sqlOf(OWN));
  const answers = await Promise.all([
    subscriptions.update({ status: "active" }).eq("id", id),
    subscriptions.update({ account_id: ann }).neq("id", id),
    subscriptions.delete().eq("id", id),
    subscriptions.insert({ id: uniqueId("sub"), account_id: ann }),
    subscriptions.select("*"),
    subscriptions.select("customer_id"),
    app.from("billing_records").select("id"),
    app.rpc("billing_apply_events", { events: [] }),
  ]);
  assertEquals(
    answers.map(({ error }) => error?.code),
    answers.map(() => DENIED),
  );
});

Deno.test("a user asks for the access of their own account, and learns nothing about others; a server asks for every one", async () => {
  const ann = await accountWith({ provider_status: "active" });
  const ben = await accountWith({ provider_status: "incomplete" });
  const pastDue = (hours: number) =>
    accountWith({
      status: "past_due",
      provider_status: "past_due",
      past_due_since: new Date(Date.now() - hours * 3_600_000),
    });
  const [early, late] = [await pastDue(71), await pastDue(73)];
  await using _ = await applySql(sql, RIGHTS, sqlOf(OWN));

  for (
    const [sub, account, expected] of [
      [ann, ann, true],
      [ben, ann, false],
      [ben, ben, false],
      [undefined, ann, false],
      // The page's grace is three days.
      [early, early, true],
      [late, late, false],
    ] as const
  ) {
    const app = await appOf(sub ? { sub } : {});
    assertEquals(await answer(app, account), expected);
  }
  assertEquals(await answer(await appOf(), ann), DENIED);

  const server = await serverApp();
  assertEquals(
    await Promise.all([ann, ben].map((account) => answer(server, account))),
    [true, false],
  );
});

Deno.test("an account has the features of all its items, for its users in policies and for the server", async () => {
  const pro = {
    items: sql.json([
      { product_id: "prod_pro", quantity: 5 },
      { product_id: "prod_extra_seats", quantity: 2 },
    ]),
  };
  const ann = await accountWith({ ...pro, provider_status: "active" });
  const ben = await accountWith({ ...pro, provider_status: "unpaid" });
  const older = await accountWith({
    items: sql.json([{ product_id: "prod_pro", price_id: "price_pro_2026" }]),
  });
  await using _ = await applySql(
    sql,
    RIGHTS,
    sqlOf(OWN),
    sqlOf("insert into billing.plan_features"),
    DOCUMENTS,
    WITH_FEATURE,
  );

  const amounts = (app: Client, account: string): Promise<unknown[]> =>
    Promise.all(
      ["seats", "projects", "documents", "unknown"].map(async (feature) => {
        const asked = { account_id: account, feature, grace: "3 days" };
        const reply = await app.rpc("billing_feature_amount", asked);
        return reply.error ? reply.error.code : reply.data;
      }),
    );

  const ofAnn = await appOf({ sub: ann });
  assertEquals(await amounts(ofAnn, ann), Array(4).fill(DENIED));
  await sql.unsafe(sqlOf('"All read what plans include"'));
  const nothing = [0, 0, 0, 0];
  assertEquals(await amounts(ofAnn, ann), [7, null, 1, 0]);
  assertEquals(await amounts(ofAnn, older), nothing);

  const server = await serverApp();
  assertEquals(await amounts(server, ann), [7, null, 1, 0]);
  assertEquals(await amounts(server, ben), nothing);
  assertEquals(await amounts(server, older), [1, 20, 1, 0]);

  await sql`
    insert into public.documents values ('of_ann', ${ann}), ('of_ben', ${ben})`;
  assertEquals(await seenBy({ sub: ann }, "documents"), ["of_ann"]);
  assertEquals(await seenBy({ sub: ben }, "documents"), []);
  const written = ofAnn.from("billing_plan_features").delete().neq("amount", 9);
  assertEquals((await written).error?.code, DENIED);
});

Deno.test("members of a team read its subscription, and its documents if it has access", async () => {
  const paying = await accountWith({ provider_status: "active" });
  const paused = await accountWith({ paused: "void" });
  const other = await accountWith({ provider_status: "active" });
  const [ann, ben] = [crypto.randomUUID(), crypto.randomUUID()];
  await using _ = await applySql(
    sql,
    RIGHTS,
    TEAM_MEMBERS,
    sqlOf('"Members read'),
    DOCUMENTS,
    sqlOf('"Members of teams with access'),
  );
  await sql`
    insert into public.team_members
    values (${paying}, ${ann}), (${paused}, ${ann}), (${other}, ${ben})`;
  await sql`
    insert into public.documents
    values ('paying', ${paying}), ('paused', ${paused}), ('other', ${other})`;

  // As the page says: their rights count, and they have none on it yet.
  assertEquals(await seenBy({ sub: ann }), DENIED);
  await sql`grant select on public.team_members to authenticated`;
  const ids = await sql`
    select id from billing.subscriptions
    where account_id in (${paying}, ${paused}) order by id collate "C"`;
  assertEquals(await seenBy({ sub: ann }), ids.map((row) => row["id"]));
  assertEquals((await seenBy({ sub: ben })).length, 1);
  assertEquals(await seenBy({ sub: crypto.randomUUID() }), []);

  assertEquals(await seenBy({ sub: ann }, "documents"), ["paying"]);
  const app = await appOf({ sub: ann });
  assertEquals(
    await Promise.all([paying, paused, other].map((it) => answer(app, it))),
    [true, false, false],
  );
});

Deno.test("the account in the token reads its subscription", async () => {
  const account = uniqueId("acc");
  const subscription = await subscribe(receiver.url, account);
  await using _ = await applySql(sql, RIGHTS, sqlOf('"The account'));
  const own = { account_id: account };
  const others = { account_id: uniqueId("acc") };
  const seen = (claims: Record<string, unknown>) =>
    seenBy({ sub: crypto.randomUUID(), ...claims });
  assertEquals(await seen({ app_metadata: own }), [subscription]);
  assertEquals(await seen({ app_metadata: others }), []);
  // Users can write these claims themselves.
  assertEquals(await seen({ user_metadata: own }), []);
  assertEquals(await seen(own), []);
});
