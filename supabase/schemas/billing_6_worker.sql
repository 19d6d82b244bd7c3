-- The schedule of the worker, pruning, erasing, and views for monitoring. On a Supabase project, pg_cron runs the
-- schedule, pg_net makes the call, Vault stores the key. A plain Postgres has none of them.

-- Wakes the worker without waiting for it: it claims its work in the database, so a lost or duplicate call does no
-- harm. A long timeout may delay the project's other calls through pg_net. Without a queue, it is the schedule that
-- wakes it. Returns false if nothing is scheduled, or if the caller may not use Vault or pg_net; the schedule may. What
-- fails besides, such as Vault in a project that was restored elsewhere, is a warning: it must not undo its caller.
create or replace function billing.wake_worker(queue text default null)
returns boolean language plpgsql volatile set search_path = ''
set lock_timeout = '100ms'
as $$
declare
  call bigint;
begin
  if to_regclass('vault.decrypted_secrets') is null or not exists (
    select from pg_proc p where p.pronamespace = to_regnamespace('net') and p.proname = 'http_post'
  ) then
    return false;
  end if;
  execute $sql$
    select net.http_post(
      url := u.decrypted_secret || coalesce('?queue=' || $1, ''), body := '{}'::jsonb, timeout_milliseconds := 5000,
      headers := jsonb_build_object('content-type', 'application/json', 'apikey', k.decrypted_secret)
    )
    from vault.decrypted_secrets u, vault.decrypted_secrets k
    where u.name = 'billing_worker_url' and k.name = 'billing_worker_key'
      and u.decrypted_secret is not null and k.decrypted_secret is not null
  $sql$ into call using queue;
  return call is not null;
exception
  when insufficient_privilege then
    return false;
  when others or query_canceled or assert_failure then
    raise warning 'The worker was not woken: %', sqlerrm using
      errcode = sqlstate,
      hint = 'Run billing.schedule_worker again, with the URL and the secret key of this project.';
    return false;
end;
$$;

create or replace function billing.schedule_worker(project_url text, secret_key text)
returns text language plpgsql volatile set search_path = '' as $$
begin
  -- The secret key goes there: over https, but on a local stack, by its names in and out of a container.
  if coalesce(project_url, '') !~ ('^(https://[^/?#@[:space:]]+'
    || '|http://(localhost|127(\.[0-9]{1,3}){3}|kong|host\.docker\.internal)(:[0-9]+)?)/?$') then
    raise exception 'The project URL must look like https://<project-ref>.supabase.co, without a path.'
      using hint = 'Copy it from Project Settings, API. Only a local stack may have http://.';
  end if;
  if coalesce(secret_key, '') !~ '^sb_secret_' then
    raise exception 'The key must be a secret key of the project (sb_secret_...).'
      using hint = 'Copy it from Project Settings, API Keys.';
  end if;

  -- Each in the schema that Supabase uses; supabase_vault names its own and creates it. Not "if not exists", because
  -- Supabase runs a script after pg_cron is created.
  execute coalesce((
    select string_agg(format('create extension %I %s;', e.name, e.place), ' ')
    from (values
      ('pg_cron', 'schema pg_catalog'), ('pg_net', 'schema extensions'), ('supabase_vault', 'cascade')
    ) as e (name, place)
    where e.name not in (select x.extname from pg_extension x)
  ), '');
  execute $sql$delete from vault.secrets where name in ('billing_worker_url', 'billing_worker_key')$sql$;
  execute $sql$
    select
      vault.create_secret($1, 'billing_worker_url'), vault.create_secret($2, 'billing_worker_key'),
      cron.schedule('billing-worker', '* * * * *', 'select billing.wake_worker()'),
      cron.schedule('billing-prune', '*/5 * * * *', 'select billing.prune()')
  $sql$ using rtrim(project_url, '/') || '/functions/v1/billing-worker', secret_key;
  return 'The worker is woken every minute, and old rows are pruned. Undo it with: select billing.unschedule_worker();';
end;
$$;
comment on function billing.schedule_worker is 'Wakes the worker every minute, and prunes. Run it again to replace URL or key.';

create or replace function billing.unschedule_worker()
returns text language plpgsql volatile set search_path = '' as $$
begin
  if to_regclass('cron.job') is not null then
    execute $sql$select cron.unschedule(jobname) from cron.job where jobname ~ '^billing-(worker|prune)$'$sql$;
  end if;
  if to_regclass('vault.secrets') is not null then
    execute $sql$delete from vault.secrets where name in ('billing_worker_url', 'billing_worker_key')$sql$;
  end if;
  return 'Only the webhook still wakes the worker, for what it has just stored; and nothing is pruned.';
end;
$$;
comment on function billing.unschedule_worker is 'Undoes billing.schedule_worker, and deletes its secrets from Vault.';

-- One batch per table and call, so that no call holds locks for long. A provider lets a person resend an event for 30
-- days, so the ledger still has every event that can arrive again. Payloads contain personal data and go first.
create or replace function billing.prune(
  ledger_keeps interval default '90 days', settled_rows_keep interval default '90 days',
  payloads_keep interval default '30 days', batch_size integer default 20000
)
returns table (ledger_rows bigint, payloads bigint, failures bigint, notifications bigint)
language plpgsql volatile set search_path = '' as $$
begin
  -- By ctid, which cannot change while the row is locked. With a join by key, a plan may read the whole table, or
  -- select the batch again for every row.
  delete from billing.processed_events t where t.ctid = any (array(
    select o.ctid from billing.processed_events o where o.processed_at < now() - ledger_keeps
    order by o.processed_at limit batch_size for update skip locked
  ));
  get diagnostics ledger_rows = row_count;
  update billing.failed_events t set payload = null, original_payload = null where t.ctid = any (array(
    select o.ctid from billing.failed_events o
    where o.resolved_at < now() - payloads_keep and (o.payload is not null or o.original_payload is not null)
    order by o.resolved_at limit batch_size for update skip locked
  ));
  get diagnostics payloads = row_count;
  delete from billing.failed_events t where t.ctid = any (array(
    select o.ctid from billing.failed_events o where o.resolved_at < now() - settled_rows_keep
    order by o.resolved_at limit batch_size for update skip locked
  ));
  get diagnostics failures = row_count;
  delete from billing.notifications t where t.ctid = any (array(
    select o.ctid from billing.notifications o
    where o.status <> 'pending' and o.created_at < now() - settled_rows_keep
    order by o.created_at limit batch_size for update skip locked
  ));
  get diagnostics notifications = row_count;

  -- pg_cron keeps a row of each run for ever; that of a run that could not connect has no end.
  begin
    if has_table_privilege(to_regclass('cron.job_run_details'), 'delete') then
      execute $sql$
        delete from cron.job_run_details d using cron.job j
        where j.jobname in ('billing-worker', 'billing-prune') and d.jobid = j.jobid
          and coalesce(d.end_time, d.start_time, '-infinity') < now() - interval '1 day'
      $sql$;
    end if;
  exception when others then
    raise warning 'Old rows of cron.job_run_details were not deleted: %', sqlerrm
      using errcode = sqlstate;
  end;
  return next;
end;
$$;
comment on function billing.prune is 'Deletes old rows, up to batch_size per table, but open or pending ones; payloads sooner.';

-- Returns the IDs of an account as they are hashed (provider:id), including those that only failures or customers name;
-- with their locks. is_shared: another account has it, too.
create or replace function billing.ids_of(account text)
returns table (name text, id text, lock bigint, is_shared boolean)
language sql stable set search_path = ''
set jit = off
set enable_seqscan = off
as $$
  with own as (
    select s.provider, s.id, s.customer_id as customer from billing.subscriptions s where s.account_id = account
    union
    select f.provider, f.subscription_id, f.customer_id from billing.failed_events f where f.account_id = account
    union
    select c.provider, null, c.customer_id from billing.customers c where c.account_id = account
  )
  select
    o.provider || ':' || o.id,
    o.id,
    hashtextextended(o.id, 0),
    exists (select from billing.subscriptions s where s.id = o.id and s.account_id <> account)
  from own o
  where o.id is not null
  union
  select
    o.provider || ':' || o.customer,
    o.customer,
    billing.customer_hash(o.provider, o.customer),
    exists (
      select from billing.subscriptions s
      where s.provider = o.provider and s.customer_id = o.customer and s.account_id <> account
      union all
      select from billing.customers c
      where c.provider = o.provider and c.customer_id = o.customer and c.account_id <> account
    )
  from own o
  where o.customer is not null
$$;

-- Remembers its ID, and its subscriptions and customers but those that another account has, too, by a hash. It does not
-- find failures that could not be read. force: also if a subscription is not canceled, whose end nobody will hear of.
--
-- It takes all locks or none, so that no delivery waits for what it waits for. What takes seconds comes before them: to
-- search the payloads. One that is stored meanwhile, and names the account where nothing reads it, comes after.
create or replace function billing.erase_account(account_id text, force boolean default false)
returns text language plpgsql volatile set search_path = ''
set lock_timeout = '20ms'
set jit = off
set enable_seqscan = off
as $$
declare
  account constant text := erase_account.account_id;
  found_ids text[];
  found_failures text[];
  patient_until constant timestamptz := clock_timestamp() + interval '20 s';
  names text[];
  ids text[];
  locks bigint[];
  own billing.subscriptions;
  records bigint;
  failures bigint;
  notifications bigint;
begin
  if coalesce(account, '') !~ '\S' then
    raise exception 'Name the account: select billing.erase_account(''<account id>'');';
  end if;

  select array_agg(f.event_id), array_agg(f.provider || ':' || f.event_id) into found_ids, found_failures
  from billing.failed_events f
  -- A search of the text takes a third of the time.
  where strpos(f.payload::text, to_jsonb(account)::text) > 0 and jsonb_path_exists(
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
      -- From here on, no event adds an ID that names the account or has its customer,
      select array_agg(i.name), array_agg(i.lock) into names, locks
      from billing.ids_of(account) as i;

      if cardinality(locks) > 2000 then
        -- Postgres has room for a few thousand.
        raise exception 'The account has % subscriptions and customers: nothing was erased.',
          cardinality(locks)
          using hint = 'At most 2000 can be locked. First delete some of its rows in billing.failed_events.';
      elsif exists (
        select from unnest(locks) as l (key) where not pg_try_advisory_xact_lock(l.key)
      ) then
        raise lock_not_available;
      end if;
      -- nor does one of these IDs, but it may have before it was locked.
      if exists (
        select from billing.ids_of(account) as i where (i.name = any (names)) is not true
      ) then
        raise lock_not_available;
      end if;

      select s.* into own
      from billing.subscriptions s
      where s.account_id = account and s.status <> 'canceled' and not force
      limit 1;
      if found then
        raise exception 'Subscription % is % at provider %: nothing was erased.',
          own.id, own.status, own.provider
          using hint = 'Cancel it at the provider, and wait until the record is canceled; or use force => true.';
      end if;

      select array_agg(i.name), array_agg(i.id) into names, ids
      from billing.ids_of(account) as i where not i.is_shared;
      insert into billing.erasures (hash)
      select distinct sha256(k.key || convert_to(n.name, 'UTF8'))
      from billing.erasure_key k, unnest(names || ('account:' || account)) as n (name)
      on conflict do nothing;

      delete from billing.subscriptions s where s.account_id = account;
      get diagnostics records = row_count;
      -- What names another account is of that, though its customer is the same.
      delete from billing.failed_events f
      where f.event_id = any (found_ids) and f.provider || ':' || f.event_id = any (found_failures)
        or f.account_id = account
        or f.subscription_id = any (ids) and f.provider || ':' || f.subscription_id = any (names)
        or f.customer_id = any (ids) and f.provider || ':' || f.customer_id = any (names)
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
comment on function billing.erase_account is 'Deletes what is stored of an account; its later events have no effect.';

create or replace function billing.forget_erasure(provider text, id text)
returns text language plpgsql volatile set search_path = '' as $$
begin
  delete from billing.erasures e using billing.erasure_key k
  where e.hash = sha256(k.key || convert_to(forget_erasure.provider || ':' || forget_erasure.id, 'UTF8'));
  return case when found
    then 'Its events have an effect again. Have the provider send them again, or run: deno task reconcile --apply'
    else 'It was not erased: nothing to forget.' end;
end;
$$;
comment on function billing.forget_erasure is
  'Undoes billing.erase_account for a subscription or customer of a provider, or an account (provider: account).';

create or replace view billing.events_per_hour with (security_invoker = true) as
select date_trunc('hour', e.at) as hour, e.type, e.outcome, count(*) as events
from (
  select p.processed_at as at, p.type, p.outcome from billing.processed_events p
  union all
  select f.last_failed_at, f.type, 'failed' from billing.failed_events f where f.resolved_at is null
) as e
where e.at > now() - interval '3 days'
group by hour, e.type, e.outcome
order by hour desc, events desc;
comment on view billing.events_per_hour is 'Events of the last three days. failed: still open.';

-- Returns the app's handlers that can be called.
create or replace function billing.handlers()
returns text[] language sql stable set search_path = ''
return array(
  select p.proname::text from pg_catalog.pg_proc p
  where p.pronamespace = 'billing'::regnamespace and p.proname like 'on\_%'
    and oidvectortypes(p.proargtypes) = 'text, jsonb' and has_function_privilege('service_role', p.oid, 'execute')
  order by p.proname
);

-- Fast with a large ledger, too.
create or replace view billing.health with (security_invoker = true) as
select
  (select max(p.processed_at) from billing.processed_events p) as last_event_at,
  f.open_failures, f.oldest_open_failure, f.retries_requested, n.notifications_pending, n.oldest_pending_notification,
  (select count(*) from billing.notifications d where d.status in ('dead', 'undeliverable')) as notifications_given_up,
  (select case when count(l.scheduled_run_at) = 2 then min(l.scheduled_run_at) end from billing.leases l)
    as last_scheduled_run_at,
  billing.handlers() as handlers,
  (select coalesce(sum(e.purchases), 0) from billing.erasures e where e.purchases > 0) as erased_purchases
from (
  select
    count(*) as open_failures, min(o.first_failed_at) as oldest_open_failure,
    count(o.retry_requested_at) as retries_requested
  from billing.failed_events o where o.resolved_at is null
) as f, (
  select count(*) as notifications_pending, min(w.created_at) as oldest_pending_notification
  from billing.notifications w where w.status = 'pending'
) as n;
comment on view billing.health is
  'last_scheduled_run_at: when the schedule last ran both queues without a fault. erased_purchases: events of erased accounts that would have made a record.';
