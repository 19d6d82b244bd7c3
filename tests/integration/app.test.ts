/**
 * docs/app.md: its SQL, applied as in the SQL editor, lets an app's users in and
 * shows them their own data and nothing else, with the page's TypeScript.
 */
import { assertEquals } from "@std/assert";
import { createClient } from "@supabase/supabase-js";
import { localKeys } from "../../scripts/local_stack/keys.ts";
import { uniqueId } from "../../scripts/events/templates.ts";
import type { Database } from "../../supabase/functions/_shared/billing/database/database.types.ts";
import {
  applySql,
  appOf,
  BY_TOKEN,
  type Client,
  DENIED,
  RIGHTS,
  sqlOf,
  subscribe,
} from "../support/app_page.ts";
import { startPostgrest } from "../support/stacks.ts";
import { fencedBlocks, readPage } from "../support/docs.ts";
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
const FEATURES = sqlOf("insert into billing.plan_features");

const WITH_FEATURE = sqlOf('"Accounts with access').replace(
  "billing_has_access((select auth.uid())::text)",
  "billing_has_feature((select auth.uid())::text, 'documents')",
);

const sql = connect();
const receiver = await startReceiver();

Deno.test.afterAll(async () => {
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

async function hasAccess(app: Client, account_id: string) {
  const { data, error } = await app.rpc("billing_has_access", { account_id });
  return error?.code ?? data;
}

async function shownTo(app: Client, account_id: string): Promise<unknown> {
  const { data, error } = await app.rpc("billing_account", { account_id });
  return error?.code ?? data;
}

Deno.test("a user is shown their own account, as a server is, and no other", async () => {
  const [ann, ben] = [crypto.randomUUID(), crypto.randomUUID()];
  const id = await subscribe(receiver.url, ann);
  const other = await subscribe(receiver.url, ben);
  await using _ = await applySql(sql, RIGHTS, sqlOf(OWN), FEATURES);

  const server = await serverApp();
  const shown = await shownTo(server, ann) as Record<string, unknown>;
  assertEquals([shown["access"], shown["subscription_id"]], [true, id]);
  assertEquals(await shownTo(await appOf({ sub: ann }), ann), shown);
  const page = { page: "app", language: "json" };
  const [example] = fencedBlocks(readPage("docs/app.md"), page);
  assertEquals(
    Object.keys(shown).sort(),
    Object.keys(JSON.parse(example!.text)).sort(),
  );

  await sql`select billing.grant_plan(${ann}, 'price_pro', reason => 'a test')`;
  assertEquals(
    await shownTo(await appOf({ sub: ben }), ann),
    await shownTo(server, crypto.randomUUID()),
  );
  assertEquals(await shownTo(await appOf(), ann), DENIED);

  assertEquals((await seenBy({ sub: ann })).length, 2);
  assertEquals(await seenBy({ sub: ben }), [other]);
  assertEquals(await seenBy({}), []);
  assertEquals(await seenBy(undefined), DENIED, "Nobody is signed in");
});

Deno.test("a user writes nothing, and reads nothing else", async () => {
  const ann = crypto.randomUUID();
  const id = await subscribe(receiver.url, ann);
  const app = await appOf({ sub: ann });
  const subscriptions = app.from("billing_subscriptions");
  assertEquals(await seenBy({ sub: ann }), DENIED, "Without the page's SQL");
  assertEquals(await hasAccess(app, ann), DENIED);

  await using _ = await applySql(sql, RIGHTS, sqlOf(OWN));
  const answers = await Promise.all([
    subscriptions.update({ status: "active" }).eq("id", id),
    subscriptions.update({ account_id: ann }).neq("id", id),
    subscriptions.delete().eq("id", id),
    subscriptions.insert({ id: uniqueId("sub"), account_id: ann }),
    subscriptions.select("*"),
    subscriptions.select("livemode"),
    app.from("billing_records").select("id"),
    app.from("billing_grants").select(),
    app.rpc("billing_grant_plan", { account_id: ann, plan_id: "price_pro" }),
    app.rpc("billing_apply_events", { events: [] }),
  ]);
  assertEquals(
    answers.map(({ error }) => error?.code),
    answers.map(() => DENIED),
  );
});

Deno.test("an account has the features of all its items, for users and the server", async () => {
  const pro = {
    items: sql.json([
      { price_id: "price_pro", quantity: 5 },
      { product_id: "prod_extra_seats", quantity: 2 },
    ]),
  };
  const ann = await accountWith({ ...pro, provider_status: "active" });
  const ben = await accountWith({ ...pro, provider_status: "unpaid" });
  await using _ = await applySql(
    sql,
    RIGHTS,
    sqlOf(OWN),
    FEATURES,
    DOCUMENTS,
    WITH_FEATURE,
  );

  const amounts = (app: Client, account_id: string): Promise<unknown[]> =>
    Promise.all(
      ["seats", "projects", "documents", "unknown"].map(async (feature) =>
        (await app.rpc("billing_feature_amount", { account_id, feature })).data
      ),
    );
  const ofAnn = await appOf({ sub: ann });
  assertEquals(await amounts(ofAnn, ann), [7, null, 1, 0]);
  assertEquals(await amounts(await serverApp(), ben), [0, 1, 0, 0]);

  await sql`
    insert into public.documents values ('of_ann', ${ann}), ('of_ben', ${ben})`;
  assertEquals(await seenBy({ sub: ann }, "documents"), ["of_ann"]);
  assertEquals(await seenBy({ sub: ben }, "documents"), []);
  const written = ofAnn.from("billing_plan_features").delete().neq("amount", 9);
  assertEquals((await written).error?.code, DENIED);
});

Deno.test("members of a team read its subscription, and documents with access", async () => {
  const paying = await accountWith({ provider_status: "active" });
  const paused = await accountWith({ paused: "void" });
  const other = await accountWith({ provider_status: "active" });
  const [ann, ben] = [crypto.randomUUID(), crypto.randomUUID()];
  await using _ = await applySql(
    sql,
    RIGHTS,
    TEAM_MEMBERS,
    DOCUMENTS,
    sqlOf('"Members read'),
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
    await Promise.all([paying, paused, other].map((it) => hasAccess(app, it))),
    [true, false, false],
  );
});

Deno.test("the account in the token reads its subscription", async () => {
  const account = uniqueId("acc");
  const subscription = await subscribe(receiver.url, account);
  await using _ = await applySql(sql, RIGHTS, BY_TOKEN);
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

Deno.test("PostgREST lets no page of another origin use the known key", async () => {
  await using postgrest = await startPostgrest(setting("TEST_DATABASE_URL"));
  const url = `${postgrest.url}/billing_subscriptions`;
  // A browser asks for this, as the Fetch standard says under "CORS protocol".
  const asked = {
    Origin: "https://page.example",
    "Access-Control-Request-Method": "GET",
    "Access-Control-Request-Headers": "authorization",
  };
  const preflight = await fetch(url, { method: "OPTIONS", headers: asked });
  await preflight.body?.cancel();
  assertEquals(preflight.headers.get("access-control-allow-headers"), null);

  const headers = {
    ...asked,
    authorization: `Bearer ${(await localKeys()).serviceRole}`,
  };
  const answer = await fetch(url, { headers });
  await answer.body?.cancel();
  assertEquals(answer.headers.get("access-control-allow-origin"), null);
});
