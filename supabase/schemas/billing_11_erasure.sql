-- Erasing an account. Its later events are marked in 04, and dropped by resolve_failures and
-- billing_record_failed_event (06). A new table with data of accounts: delete its rows in
-- erase_account, and name its IDs in ids_of.

create table billing.erasures (
  -- sha256(key || provider || ':' || id), where an account's provider is "account".
  hash bytea primary key,
  erased_at timestamptz not null default now(),
  -- Events since that would have made a record: somebody may be paying.
  purchases integer not null default 0
);

create index erasures_purchases on billing.erasures (purchases)
where
  purchases > 0;

comment on table billing.erasures is
  'IDs of accounts that were erased; see billing.forget_erasure().';

create table billing.erasure_key (key bytea not null);

comment on table billing.erasure_key is
  'One row: the random key of billing.erasures. Without it, IDs cannot be tried.';

insert into billing.erasure_key (key)
values (uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));

-- Returns the hash by which an event belongs to an account that was erased; null if it does not.
--
-- The first of these decides:
--   1. its subscription was erased;
--   2. it only changes a record that is there, or that an event before it in the call makes
--      (has_record): it belongs to the record's account, so it was not erased;
--   3. the account that it names;
--   4. the account in billing.customers, by the rules 1 to 3. A person who was erased may come
--      back as the same customer with another account: this row, or a record, is newer;
--   5. a record of its subscription or customer: not erased;
--   6. the account that the provider keeps with the customer, or else the customer.
create function billing.erasure_of(e billing.event, has_record boolean default false)
returns bytea
language plpgsql stable
set search_path = ''
set jit = off
set enable_seqscan = off
as $$
declare
  subscription constant text := coalesce(e.subscription_id, e.report ->> 'subscription_id');
  customer constant text := e.report ->> 'customer_id';
  account constant text := coalesce(e.account_id, e.named_account, e.customers_account);
  erased bytea[] := array(
    -- A subquery: the planner's policy (04).
    select (
      select o.hash
      from billing.erasures o
      where o.hash = sha256(k.key || convert_to(i.name, 'UTF8'))
    )
    from billing.erasure_key k,
      unnest(array[
        e.provider || ':' || subscription,
        e.provider || ':' || customer,
        'account:' || coalesce(account, e.fallback_account)
      ]) with ordinality as i (name, place)
    order by i.place
  );
  erased_subscription constant bytea := erased[1];
  erased_customer constant bytea := erased[2];
  erased_account constant bytea := erased[3];
begin
  if erased_subscription is not null or num_nonnulls(variadic erased) = 0 then
    return erased_subscription; -- 1
  end if;

  if e.kind not in ('creation', 'opening_update', 'checkout', 'other')
    and (has_record or exists (select from billing.subscriptions s where s.id = subscription))
  then
    return null; -- 2
  end if;

  if account is not null then
    return erased_account; -- 3
  end if;

  select c.account_id
  into e.customers_account
  from billing.customers c
  where c.provider = e.provider and c.customer_id = customer;
  if found then
    return billing.erasure_of(e); -- 4
  end if;

  if has_record or exists (
    select
    from billing.subscriptions s
    where s.id = subscription or s.provider = e.provider and s.customer_id = customer
  ) then
    return null; -- 5
  end if;
  return case when e.fallback_account is not null then erased_account else erased_customer end;
end;
$$;

-- Returns the IDs of an account as they are hashed (provider:id), including those that only
-- failures or customers name, with their locks. is_shared: another account has it, too.
create function billing.ids_of(account text)
returns table (name text, id text, lock bigint, is_shared boolean)
language sql stable
set search_path = ''
as $$
  with ids as (
    select s.provider, s.id as subscription, s.customer_id as customer
    from billing.subscriptions s
    where s.account_id = account
    union
    select f.provider, f.subscription_id, f.customer_id
    from billing.failed_events f
    where f.account_id = account
    union
    select c.provider, null, c.customer_id
    from billing.customers c
    where c.account_id = account
  )
  select
    i.provider || ':' || i.subscription,
    i.subscription,
    billing.subscription_lock(i.subscription),
    exists (
      select
      from billing.subscriptions s
      where s.id = i.subscription and s.account_id <> account
    )
  from ids i
  where i.subscription is not null
  union
  select
    i.provider || ':' || i.customer,
    i.customer,
    billing.customer_erasure_lock(i.provider, i.customer),
    exists (
      select
      from billing.subscriptions s
      where s.provider = i.provider and s.customer_id = i.customer and s.account_id <> account
      union all
      select
      from billing.customers c
      where c.provider = i.provider and c.customer_id = i.customer and c.account_id <> account
    )
  from ids i
  where i.customer is not null
$$;

-- Remembers by hashes the account's ID and those of its subscriptions and customers, but not those
-- that another account has, too. force: also if a subscription is not canceled; its end will have
-- no effect then.
--
-- It takes all locks or none, so that no delivery waits for what it waits for. The search of the
-- payloads, which takes seconds, comes before them. It misses a failure that is stored meanwhile
-- and has the account's ID only where no format reads it: run it again to find that.
create function billing.erase_account(account_id text, force boolean default false)
returns text
language plpgsql volatile
set search_path = ''
set lock_timeout = '20ms'
set jit = off
set enable_seqscan = off
as $$
declare
  account constant text := erase_account.account_id;
  patient_until constant timestamptz := clock_timestamp() + interval '20 s';
  found_ids text[];
  found_failures text[];
  names text[];
  ids text[];
  locks bigint[];
  uncanceled billing.subscriptions;
  records bigint;
  failures bigint;
  notifications bigint;
begin
  if coalesce(account, '') !~ '\S' then
    raise exception 'Name the account: select billing.erase_account(''<account id>'');';
  end if;

  -- A search of the text takes a third of the time.
  select array_agg(f.event_id), array_agg(f.provider || ':' || f.event_id)
  into found_ids, found_failures
  from billing.failed_events f
  where strpos(f.payload::text, to_jsonb(account)::text) > 0
    and jsonb_path_exists(
      f.payload,
      '$.** ? (@.accountId == $id || @.account_id == $id
        || @.external_id == $id || @.client_reference_id == $id)',
      jsonb_build_object('id', account)
    );

  loop
    begin
      if not pg_try_advisory_xact_lock(billing.account_lock(account)) then
        raise lock_not_available;
      end if;

      -- From here on, no event that names the account, or has its customer, adds an ID.
      locks := array(select i.lock from billing.ids_of(account) as i);

      if cardinality(locks) > 2000 then
        raise exception 'The account has % subscriptions and customers: nothing was erased.',
          cardinality(locks)
          using hint = 'At most 2000 can be locked. '
            || 'First delete some of its rows in billing.failed_events.';
      elsif exists (
        select from unnest(locks) as l (key) where not pg_try_advisory_xact_lock(l.key)
      ) then
        raise lock_not_available;
      end if;

      -- From here on, no event of these IDs does. One may have before.
      if exists (select from billing.ids_of(account) as i where i.lock <> all (locks)) then
        raise lock_not_available;
      end if;

      select s.*
      into uncanceled
      from billing.subscriptions s
      where s.account_id = account
        and s.provider <> 'manual'
        and s.status <> 'canceled'
        and not force
      limit 1;
      if found then
        raise exception 'Subscription % is % at provider %: nothing was erased.',
          uncanceled.id, uncanceled.status, uncanceled.provider
          using hint = 'Cancel it at the provider, and wait until the record is canceled; '
            || 'or use force => true.';
      end if;

      select array_agg(i.name), array_agg(i.id)
      into names, ids
      from billing.ids_of(account) as i
      where not i.is_shared;

      insert into billing.erasures (hash)
      select distinct sha256(k.key || convert_to(n.name, 'UTF8'))
      from billing.erasure_key k, unnest(names || ('account:' || account)) as n (name)
      on conflict do nothing;

      delete from billing.subscriptions s where s.account_id = account;
      get diagnostics records = row_count;

      -- A failure that names another account belongs to that, though its customer is the same.
      delete from billing.failed_events f
      where f.event_id = any (found_ids)
          and f.provider || ':' || f.event_id = any (found_failures)
        or f.account_id = account
        or f.subscription_id = any (ids)
          and f.provider || ':' || f.subscription_id = any (names)
        or f.customer_id = any (ids)
          and f.provider || ':' || f.customer_id = any (names)
          and f.account_id is null;
      get diagnostics failures = row_count;

      delete from billing.customers c where c.account_id = account;

      delete from billing.notifications n where n.account_id = account;
      get diagnostics notifications = row_count;

      return format(
        'Erased: %s subscriptions, %s failed events, %s notifications.',
        records, failures, notifications
      );
    exception when lock_not_available then
      if clock_timestamp() > patient_until then
        raise exception
          'An event of the account is being handled, or its rows are locked: nothing was erased.'
          using errcode = 'lock_not_available', hint = 'Run it again in a minute.';
      end if;
    end;
    perform pg_sleep(0.02);
  end loop;
end;
$$;

comment on function billing.erase_account is
  'Deletes what is stored of an account; its later events have no effect.';

create function billing.forget_erasure(provider text, id text)
returns text
language plpgsql volatile
set search_path = ''
as $$
begin
  delete from billing.erasures e
  using billing.erasure_key k
  where e.hash = sha256(k.key || convert_to(
    forget_erasure.provider || ':' || forget_erasure.id, 'UTF8'
  ));
  return case
    when found then 'Its events have an effect again. '
      || 'Have the provider send them again, or run: deno task reconcile --apply'
    else 'It was not erased: nothing to forget.'
  end;
end;
$$;

comment on function billing.forget_erasure is
  'Undoes billing.erase_account for a subscription or customer of a provider, or an account '
  '(provider: account).';
