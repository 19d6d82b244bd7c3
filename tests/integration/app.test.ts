/**
 * docs/app.md: its SQL, applied as in the SQL editor, lets an app's users read
 * their own data and nothing else, with the page's TypeScript, supabase-js and
 * PostgREST.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { uniqueId } from "../../scripts/events/unique_id.ts";
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
import { startReceiver } from "../support/receiver.ts";
import { connect } from "../support/tables.ts";

const sql = connect();
const receiver = await startReceiver();
const code = await loadAppCode();

Deno.test.afterAll(async () => {
  await code[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
  await sql.end();
});

/** Returns the IDs that an app can read, or the code of the refusal. */
async function seenBy(app: Client) {
  const { data, error } = await app.from("billing_subscriptions").select("id");
  return { ids: data?.map(({ id }) => id), refusal: error?.code };
}

Deno.test("a user reads their own subscription, and no other", async () => {
  const [ann, ben, eve] = [1, 2, 3].map(() => crypto.randomUUID());
  const subscription = await subscribe(receiver.url, ann!);
  const other = await subscribe(receiver.url, ben!);
  await using _ = await applySql(sql, RIGHTS, sqlOf('"Users read'));

  const plan = {
    id: subscription,
    status: "active",
    provider_status: "trialing",
    plan_id: "price_pro",
    quantity: 5,
    cancel_at: "2027-05-03T10:00:00+00:00",
    trial_end: "2027-05-04T10:00:00+00:00",
    current_period_end: "2027-05-05T10:00:00+00:00",
  };
  await sql`update billing.subscriptions set ${
    sql(plan)
  } where id = ${subscription}`;
  assertEquals(await code.readPlan(await appOf({ sub: ann })), plan);
  const ended = await subscribe(receiver.url, ann!);
  await sql`
    update billing.subscriptions set
      status = 'canceled', canceled_at = now(), current_period_end = '2030-01-01'
    where id = ${ended}`;
  assertEquals(
    (await code.readPlan(await appOf({ sub: ann })))?.["id"],
    subscription,
    "One that has ended hides the one that counts",
  );
  await sql`
    update billing.subscriptions set status = 'active', provider_status = 'incomplete'
    where id = ${ended}`;
  assertEquals(
    (await code.readPlan(await appOf({ sub: ann })))?.["id"],
    subscription,
    "One that nobody has paid hides the one that counts",
  );
  await sql`delete from billing.subscriptions where id = ${ended}`;
  assertEquals((await code.readPlan(await appOf({ sub: ben })))?.["id"], other);
  assertEquals(await code.readPlan(await appOf({ sub: eve })), null);

  const refusal = undefined;
  assertEquals(await seenBy(await appOf({ sub: ann })), {
    ids: [subscription],
    refusal,
  });
  assertEquals(await seenBy(await appOf({ sub: ben })), {
    ids: [other],
    refusal,
  });
  assertEquals(await seenBy(await appOf({})), { ids: [], refusal });
});

Deno.test("a client that is not signed in reads nothing", async () => {
  await using _ = await applySql(sql, RIGHTS, sqlOf('"Users read'));
  assertEquals(await seenBy(await appOf()), {
    ids: undefined,
    refusal: DENIED,
  });
});

Deno.test("without the page's SQL nobody reads anything", async () => {
  const app = await appOf({ sub: crypto.randomUUID() });
  assertEquals(await seenBy(app), { ids: undefined, refusal: DENIED });
});

Deno.test("a user writes nothing, and reads no other column, table or function", async () => {
  const ann = crypto.randomUUID();
  const id = await subscribe(receiver.url, ann);
  await using _ = await applySql(sql, RIGHTS, sqlOf('"Users read'));
  const app = await appOf({ sub: ann });
  const subscriptions = app.from("billing_subscriptions");
  const answers = await Promise.all([
    subscriptions.update({ status: "active" }).eq("id", id),
    subscriptions.update({ account_id: ann }).neq("id", id),
    subscriptions.delete().eq("id", id),
    subscriptions.insert({
      id: uniqueId("sub"),
      provider: "a",
      account_id: ann,
      status: "active",
      plan_id: "price_pro",
      current_period_end: "2030-01-01T00:00:00Z",
    }),
    subscriptions.select("*"),
    subscriptions.select("customer_id"),
    app.from("billing_records").select("id"),
    app.from("billing_failed_events").select("event_id"),
    app.from("billing_processed_events").select("event_id"),
    app.from("billing_notifications").select("id"),
    app.from("billing_health").select("open_failures"),
    app.rpc("billing_apply_events", { events: [] }),
    app.rpc("billing_retry_failed_events"),
    app.rpc("billing_account_email", { account_id: ann }),
  ]);
  assertEquals(
    answers.map(({ error }) => error?.code),
    answers.map(() => DENIED),
  );
});

Deno.test("the page grants each column of the view on the table", async () => {
  await using _ = await applySql(sql, RIGHTS);
  const [missing] = await sql`
    select array_agg(c.column_name::text) as columns
    from information_schema.columns c
    where c.table_schema = 'public' and c.table_name = 'billing_subscriptions'
      and not has_column_privilege(
        'authenticated', 'billing.subscriptions', c.column_name, 'select'
      )`;
  assertEquals(missing?.["columns"], null);
});

Deno.test("members of a team read its subscription", async () => {
  const [ann, ben] = [crypto.randomUUID(), crypto.randomUUID()];
  const [red, blue] = [crypto.randomUUID(), crypto.randomUUID()];
  const subscription = await subscribe(receiver.url, red);
  const other = await subscribe(receiver.url, blue);
  await using _ = await applySql(
    sql,
    "create table public.team_members (team_id uuid, user_id uuid)",
    RIGHTS,
    sqlOf('"Members read'),
  );
  await sql`
    insert into public.team_members values (${red}, ${ann}), (${blue}, ${ben})`;
  const app = await appOf({ sub: ann });
  // As the page says: their rights count, and they have none on it yet.
  assertEquals((await seenBy(app)).refusal, DENIED);

  await sql.unsafe(`
    alter table public.team_members enable row level security;
    grant select on public.team_members to authenticated;
    create policy "All rows" on public.team_members for select to authenticated
      using (true);
  `).simple();
  assertEquals((await code.readPlan(app))?.["id"], subscription);
  assertEquals((await seenBy(app)).ids, [subscription]);
  assertEquals((await seenBy(await appOf({ sub: ben }))).ids, [other]);
  assertEquals(
    (await seenBy(await appOf({ sub: crypto.randomUUID() }))).ids,
    [],
  );
});

Deno.test("the account in the token reads its subscription", async () => {
  const account = uniqueId("acc");
  const subscription = await subscribe(receiver.url, account);
  await using _ = await applySql(sql, RIGHTS, sqlOf('"The account'));
  const sub = crypto.randomUUID();
  const own = { account_id: account };
  const seen = async (claims: Record<string, unknown>) =>
    (await seenBy(await appOf({ sub, ...claims }))).ids;
  assertEquals(await seen({ app_metadata: own }), [subscription]);
  assertEquals(
    await seen({ app_metadata: { account_id: uniqueId("acc") } }),
    [],
  );
  // Which users write themselves.
  assertEquals(await seen({ user_metadata: own }), []);
  assertEquals(await seen({ account_id: account }), []);
});
