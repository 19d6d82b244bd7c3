/**
 * docs/app.md: billing_has_access, asked by an app, by a server, and by the policies of
 * another table.
 *
 * @module
 */
import { assertEquals, assertRejects } from "@std/assert";
import { createClient } from "@supabase/supabase-js";
import { localKeys } from "../../scripts/common/keys.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import type { Database } from "../../supabase/functions/_shared/billing/database.types.ts";
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
import { setting } from "../support/test_environment.ts";

const DOCUMENTS = `
  create table public.documents (id text, account_id text);
  alter table public.documents enable row level security;
  grant select on public.documents to authenticated;
`;
const TEAM_MEMBERS = `
  create table public.team_members (team_id text, user_id uuid);
  grant select on public.team_members to authenticated;
`;

const sql = connect();
const receiver = await startReceiver();
const code = await loadAppCode();

Deno.test.afterAll(async () => {
  await code[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
  await sql.end();
});

/** Makes a subscription as the provider reports it; returns its account. */
async function accountWith(
  columns: Record<string, unknown>,
): Promise<string> {
  const account = crypto.randomUUID();
  const id = await subscribe(receiver.url, account);
  await sql`update billing.subscriptions set ${sql(columns)} where id = ${id}`;
  return account;
}

function hoursAgo(hours: number): string {
  return new Date(Date.now() - hours * 3_600_000).toISOString();
}

/** What the page's function answers, or the code of the refusal. */
function answer(app: Client, account: string) {
  return code.hasAccess(app, account).catch(({ code }) => code);
}

/** Returns the IDs of the documents that an app can read. */
async function documentsOf(app: Client): Promise<string[]> {
  // The table is the page's example, and not among the generated types.
  const { data, error } = await app.from("documents" as never).select("id");
  if (error) throw error;
  return (data as { id: string }[]).map(({ id }) => id).sort();
}

Deno.test("a user asks for their own account, and learns nothing about others", async () => {
  const ann = await accountWith({ provider_status: "active" });
  const ben = await accountWith({ provider_status: "incomplete" });
  await using _ = await applySql(sql, RIGHTS, sqlOf('"Users read'));
  assertEquals(await answer(await appOf({ sub: ann }), ann), true);
  assertEquals(await answer(await appOf({ sub: ben }), ann), false);
  assertEquals(await answer(await appOf({ sub: ben }), ben), false);
  assertEquals(await answer(await appOf({}), ann), false);
  assertEquals(await answer(await appOf(), ann), DENIED);
});

Deno.test("the page's grace lets a user in for three days", async () => {
  const pastDue = (hours: number) =>
    accountWith({
      status: "past_due",
      provider_status: "past_due",
      past_due_since: hoursAgo(hours),
    });
  const [early, late] = [await pastDue(71), await pastDue(73)];
  await using _ = await applySql(sql, RIGHTS, sqlOf('"Users read'));
  assertEquals(await answer(await appOf({ sub: early }), early), true);
  assertEquals(await answer(await appOf({ sub: late }), late), false);
});

Deno.test("without the page's SQL, nobody but the server may ask", async () => {
  const ann = await accountWith({ provider_status: "active" });
  assertEquals(await answer(await appOf({ sub: ann }), ann), DENIED);
  const { secret } = await localKeys();
  const server = createClient<Database>(setting("TEST_API_URL"), secret);
  assertEquals(await answer(server, ann), true);
  assertEquals(await answer(server, uniqueId("acc")), false);
});

Deno.test("a server without Supabase's packages asks over HTTP", async () => {
  const ann = await accountWith({ provider_status: "active" });
  const ben = await accountWith({ provider_status: "incomplete" });
  const { secret, publishable } = await localKeys();
  const ask = (account: string, secretKey = secret) =>
    code.askForAccess(account, {
      projectUrl: setting("TEST_API_URL"),
      secretKey,
    });
  assertEquals(await ask(ann), true);
  assertEquals(await ask(ben), false);
  await assertRejects(
    () => ask(ann, publishable),
    Error,
    "billing_has_access: 401",
  );
});

Deno.test("a policy lets accounts with access read their documents", async () => {
  const ann = await accountWith({ provider_status: "active" });
  const ben = await accountWith({ provider_status: "unpaid" });
  await using _ = await applySql(
    sql,
    RIGHTS,
    sqlOf('"Users read'),
    DOCUMENTS,
    sqlOf('"Accounts with access'),
  );
  await sql`
    insert into public.documents
    values ('of_ann', ${ann}), ('of_ben', ${ben}), ('of_nobody', 'acc_nobody')`;
  assertEquals(await documentsOf(await appOf({ sub: ann })), ["of_ann"]);
  assertEquals(await documentsOf(await appOf({ sub: ben })), []);
  assertEquals(
    await documentsOf(await appOf({ sub: crypto.randomUUID() })),
    [],
  );
});

Deno.test("a policy lets members of teams with access read their documents", async () => {
  const paying = await accountWith({ provider_status: "active" });
  const paused = await accountWith({ paused: "void" });
  const other = await accountWith({ provider_status: "active" });
  const ann = crypto.randomUUID();
  await using _ = await applySql(
    sql,
    RIGHTS,
    TEAM_MEMBERS,
    sqlOf('"Members read'),
    DOCUMENTS,
    sqlOf('"Members of teams with access'),
  );
  await sql`
    insert into public.team_members values (${paying}, ${ann}), (${paused}, ${ann})`;
  await sql`
    insert into public.documents
    values ('paying', ${paying}), ('paused', ${paused}), ('other', ${other})`;
  const app = await appOf({ sub: ann });
  assertEquals(await documentsOf(app), ["paying"]);
  assertEquals(await answer(app, paying), true);
  assertEquals(await answer(app, paused), false);
  assertEquals(await answer(app, other), false);
});
