/**
 * An app that has subscriptions already, as made from Vercel's starter: its
 * tables. starter_stripe.ts has the webhook handler that writes them.
 *
 * @module
 */
import { join } from "node:path";
import postgres from "postgres";
import { migrateFrom } from "../support/migrate_part.ts";
import type { HostedProject } from "./hosted_project.ts";
import {
  openTerminal,
  type ProjectTerminal,
  setLocalPort,
} from "./deployer.ts";

/** What Supabase Auth has, as far as the app's tables refer to it. */
export const AUTH_USERS = "create table auth.users (id uuid primary key)";

const FILES = {
  "migrations/20230530034630_init.sql": `
    create table customers (
      id uuid references auth.users on delete cascade not null primary key,
      stripe_customer_id text
    );
    alter table customers enable row level security;
    create policy "Users write their own customer" on customers
      for update to authenticated using (auth.uid() = id);
    create table prices (id text primary key, unit_amount bigint);
    alter table prices enable row level security;
    create policy "Everyone reads prices" on prices for select using (true);
    create type subscription_status as enum (
      'trialing', 'active', 'canceled', 'incomplete', 'incomplete_expired',
      'past_due', 'unpaid', 'paused'
    );
    create table subscriptions (
      id text primary key,
      user_id uuid references auth.users on delete cascade not null,
      status subscription_status,
      metadata jsonb,
      price_id text references prices,
      quantity integer,
      cancel_at_period_end boolean,
      created timestamptz default now() not null,
      current_period_end timestamptz default now() not null
    );
    alter table subscriptions enable row level security;
    create policy "Can only view own subs data." on subscriptions
      for select using (auth.uid() = user_id);
    grant select on prices, subscriptions to anon, authenticated;
    grant select, update on customers to authenticated;
    grant select, insert, update, delete on customers, prices, subscriptions
      to service_role;`,
  "migrations/20240301000000_posts.sql": `
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
    grant select on posts to anon, authenticated;
    insert into posts values ('Free', false), ('Paid', true);`,
};

/** The statements of its migrations, in order. */
export const STARTER_MIGRATIONS: readonly string[] = Object.values(FILES);

/** The project's folder, and a terminal in it. */
export interface StarterProject extends ProjectTerminal {
  /**
   * Makes a migration behind all others and applies it, as a push does.
   *
   * @throws {Error} If the database or the order of the files refuses it.
   */
  migrate(name: string, sql: string): Promise<void>;
}

/** Makes the project, with a terminal that reaches a hosted one. */
export async function makeStarterProject(
  hosted: HostedProject,
  { localPort }: { localPort: number },
): Promise<StarterProject> {
  await using opened = new AsyncDisposableStack();
  const path = await Deno.makeTempDir({ prefix: "billing-webhook-starter-" });
  opened.defer(() => Deno.remove(path, { recursive: true }));
  const { type } = opened.use(await openTerminal(hosted, path));
  const { code, said } = await type("git init --quiet\nsupabase init --yes");
  if (code !== 0) throw new Error(said);
  await setLocalPort(path, localPort);
  const supabase = join(path, "supabase");
  const write = (name: string, text: string) =>
    Deno.writeTextFile(join(supabase, name), text);
  await Deno.mkdir(join(supabase, "migrations"), { recursive: true });
  for (const [name, text] of Object.entries(FILES)) await write(name, text);
  const sql = postgres(hosted.databaseUrl, { max: 1 });
  await sql.unsafe(AUTH_USERS);
  await sql.end();

  async function migrate(name: string, text: string) {
    // As a person does: never within the seconds that add's versions are ahead.
    const newest = [...Deno.readDirSync(join(supabase, "migrations"))]
      .map(({ name }) => name.split("_")[0] ?? "").sort().at(-1);
    await write(`migrations/${Number(newest) + 1}_${name}.sql`, text);
    await migrateFrom(path, hosted.databaseUrl);
  }
  const owned = opened.move();
  return {
    path,
    type,
    migrate,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
