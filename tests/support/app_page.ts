/**
 * What the tests of docs/app.md share: the page's SQL and TypeScript, and apps
 * that run it.
 */
import { assertEquals } from "@std/assert";
import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import type { Sql } from "postgres";
import { localKeys, signToken } from "../../scripts/local_stack/keys.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/templates.ts";
import type { Database } from "../../supabase/functions/_shared/billing/database/database.types.ts";
import { readPage, sqlBlocks, writeDocCode } from "./docs.ts";
import { deliver } from "./send.ts";
import { setting } from "./test_environment.ts";

export type Client = SupabaseClient<Database>;

export interface AppCode extends AsyncDisposable {
  createClient(): Client;
}

/** insufficient_privilege */
export const DENIED = "42501";

const UNDO = `
  drop policy if exists "Users read their own subscriptions" on billing.subscriptions;
  drop policy if exists "Members read their teams' subscriptions" on billing.subscriptions;
  drop policy if exists "Users read what plans include" on billing.plan_features;
  delete from billing.plan_features;
  revoke all on table
    billing.subscriptions, public.billing_subscriptions,
    billing.plan_features, public.billing_plan_features
    from authenticated;
  revoke all on function
    public.billing_account, public.billing_has_access, public.billing_has_feature,
    public.billing_feature_amount, public.billing_default_grace
    from authenticated;
  drop function if exists public.use_feature;
  drop table if exists public.used_features, public.team_members, public.documents;
`;

const page = readPage("docs/app.md");

export function sqlOf(text: string): string {
  const found = sqlBlocks(page, "app.md").filter(({ sql }) =>
    sql.includes(text)
  );
  assertEquals(found.length, 1, text);
  return found[0]!.sql;
}

/** The page's policy for an account in the token. */
export const BY_TOKEN = sqlOf('"Users read').replace(
  "(select auth.uid())::text",
  () => /`(\(select auth\.jwt\(\) -> [^`]+)`/.exec(page)![1]!,
);

/** What signed-in users may do, without any policy on subscriptions. */
export const RIGHTS = readPage("docs/nextjs/billing.sql");

export async function loadAppCode(): Promise<AppCode> {
  const code = await writeDocCode(["docs/app.md"]);
  const modules = await Promise.all(code.files.map((file) => import(file)));
  return Object.assign({}, ...modules, {
    [Symbol.asyncDispose]: () => code[Symbol.asyncDispose](),
  });
}

export async function applySql(
  sql: Sql,
  ...statements: string[]
): Promise<AsyncDisposable> {
  await using opened = new AsyncDisposableStack();
  opened.defer(async () => {
    await sql.unsafe(UNDO).simple();
  });
  for (const statement of statements) await sql.unsafe(statement).simple();
  return opened.move();
}

/**
 * Returns an app whose signed-in user has a token with these claims, as Supabase
 * Auth gives one; without claims, nobody is signed in.
 */
export async function appOf(
  claims?: Record<string, unknown>,
): Promise<Client> {
  const { publishable } = await localKeys();
  function accessToken(): Promise<string> {
    const exp = Math.floor(Date.now() / 1000) + 60;
    return signToken({ role: "authenticated", exp, ...claims });
  }
  return createClient<Database>(setting("TEST_API_URL"), publishable, {
    ...(claims && { accessToken }),
  });
}

export async function subscribe(
  webhookUrl: string,
  account: string,
): Promise<string> {
  const subscription = uniqueId("sub");
  const event = subscriptionEvent("customer.subscription.created", {
    subscription,
    account,
    plan: "price_pro",
  });
  assertEquals((await deliver(webhookUrl, event)).status, 200);
  return subscription;
}
