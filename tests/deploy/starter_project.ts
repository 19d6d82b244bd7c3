/**
 * The tables of an app that has subscriptions already, as Vercel's starter makes
 * them, and posts that only subscribers may read.
 *
 * @module
 */

/** What Supabase Auth has, as far as the app's tables refer to it. */
export const AUTH_USERS = "create table auth.users (id uuid primary key)";

/** The statements of its migrations, in order. */
export const STARTER_MIGRATIONS: readonly string[] = [
  `
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
  `
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
];
