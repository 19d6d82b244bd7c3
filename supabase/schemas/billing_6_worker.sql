-- The schedule of the worker, pruning, and views for monitoring.
--
-- On a Supabase project, pg_cron runs the schedule, pg_net makes the call, Vault stores the key. A plain Postgres has
-- none of them, so nothing here uses them before billing.schedule_worker is run.

-- The call is fire and forget: the worker claims its work in the database, so a lost or duplicate call does no harm. It
-- waits 5 s for a reply: a long wait may delay the project's other calls through pg_net. Without a queue, it is the
-- schedule that wakes it. If service_role may not use Vault or pg_net, the schedule wakes the worker within a minute.
create or replace function billing.wake_worker(queue text default null)
returns boolean language plpgsql volatile set search_path = '' as $$
declare
  call bigint;
begin
  if to_regclass('vault.decrypted_secrets') is null or to_regproc('net.http_post') is null then
    return false;
  end if;
  execute $sql$
    select net.http_post(
      url := s.url || coalesce('?queue=' || $1, ''), body := '{}'::jsonb, timeout_milliseconds := 5000,
      headers := jsonb_build_object('content-type', 'application/json', 'apikey', s.key)
    )
    from (
      select
        max(d.decrypted_secret) filter (where d.name = 'billing_worker_url') as url,
        max(d.decrypted_secret) filter (where d.name = 'billing_worker_key') as key
      from vault.decrypted_secrets d
    ) as s
    where s.url is not null and s.key is not null
  $sql$ into call using queue;
  return call is not null;
exception when insufficient_privilege then
  return false;
end;
$$;
comment on function billing.wake_worker is
  'Wakes the worker without waiting for it. Returns false if billing.schedule_worker was not run, or if the caller may not use what it needs.';

-- The call of the worker carries the secret key, so it goes over https, but on a local stack, by its names in and out
-- of a container.
create or replace function billing.schedule_worker(project_url text, secret_key text)
returns text language plpgsql volatile set search_path = '' as $$
declare
  needed record;
begin
  if coalesce(project_url, '') !~ '^https?://[^/?#@[:space:]]+/?$' then
    raise exception 'The project URL must look like https://<project-ref>.supabase.co, without a path. Copy it from Project Settings, API.';
  end if;
  if project_url !~ '^(https://|http://(localhost|127(\.[0-9]{1,3}){3}|kong|host\.docker\.internal)(:[0-9]+)?/?$)' then
    raise exception 'The project URL must begin with https://, because the secret key is sent to it. Only a local stack may have http://.';
  end if;
  if coalesce(secret_key, '') !~ '^sb_secret_' then
    raise exception 'The key must be a secret key of the project (sb_secret_...). Copy it from Project Settings, API Keys.';
  end if;

  -- Each in the schema that Supabase uses; supabase_vault names its own and creates it. Only if it is missing, because
  -- Supabase runs a script after pg_cron is created.
  for needed in
    values ('pg_cron', 'schema pg_catalog'), ('pg_net', 'schema extensions'), ('supabase_vault', 'cascade')
  loop
    if not exists (select from pg_extension e where e.extname = needed.column1) then
      execute format('create extension %I %s', needed.column1, needed.column2);
    end if;
  end loop;
  execute $sql$
    delete from vault.secrets s where s.name in ('billing_worker_url', 'billing_worker_key')
  $sql$;
  execute $sql$
    select vault.create_secret($1, 'billing_worker_url'), vault.create_secret($2, 'billing_worker_key')
  $sql$ using rtrim(project_url, '/') || '/functions/v1/billing-worker', secret_key;

  execute $sql$
    select
      cron.schedule('billing-worker', '* * * * *', 'select billing.wake_worker()'),
      cron.schedule('billing-prune', '*/5 * * * *', 'select billing.prune()')
  $sql$;
  return 'The worker is woken every minute, and old rows are pruned. Undo it with: select billing.unschedule_worker();';
end;
$$;
comment on function billing.schedule_worker is
  'Run once in the SQL editor: schedules the worker every minute, and the pruning of the tables. Run it again to replace URL and key.';

create or replace function billing.unschedule_worker()
returns text language plpgsql volatile set search_path = '' as $$
begin
  if to_regclass('cron.job') is not null then
    execute $sql$
      select cron.unschedule(j.jobname) from cron.job j where j.jobname in ('billing-worker', 'billing-prune')
    $sql$;
  end if;
  if to_regclass('vault.secrets') is not null then
    execute $sql$
      delete from vault.secrets s where s.name in ('billing_worker_url', 'billing_worker_key')
    $sql$;
  end if;
  return 'The worker is not woken any more, and nothing is pruned. The webhook still wakes it for what it has just stored.';
end;
$$;
comment on function billing.unschedule_worker is 'Undoes billing.schedule_worker, and deletes its secrets from Vault.';

-- One batch per table and call, so that no call holds locks for long. The defaults: a provider lets a person resend an
-- event for 30 days, so the ledger still has every event that can arrive again. Payloads contain personal data and go
-- first. Open failures and pending notifications are never deleted.
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

  -- pg_cron keeps a row of each run for ever.
  if to_regclass('cron.job_run_details') is not null then
    begin
      execute $sql$
        delete from cron.job_run_details d using cron.job j
        where j.jobname in ('billing-worker', 'billing-prune') and d.jobid = j.jobid
          -- A run that could not connect has no end.
          and coalesce(d.end_time, d.start_time, '-infinity') < now() - interval '1 day'
      $sql$;
    exception when insufficient_privilege then
      null;
    end;
  end if;
  return next;
end;
$$;
comment on function billing.prune is
  'Deletes up to batch_size old rows of each table, and the payloads of resolved failures earlier than their rows. Returns how many of each.';

-- Returns whose an account's IDs are: those of its records, and those that only failures or customers name.
create or replace function billing.ids_of(of_account text)
returns table (provider text, subscription_id text, customer_id text)
language sql stable set search_path = '' as $$
  select s.provider, s.id, s.customer_id from billing.subscriptions s where s.account_id = of_account
  union
  select f.provider, f.subscription_id, f.customer_id from billing.failed_events f where f.account_id = of_account
  union
  select c.provider, null, c.customer_id from billing.customers c where c.account_id = of_account
$$;

-- Remembers its subscriptions and customers by a hash. A customer that has a subscription of another account is left to
-- that. It does not find failures that could not be read. force: also if a subscription is not canceled, whose end
-- nobody will hear of.
create or replace function billing.erase_account(account_id text, force boolean default false)
returns text language plpgsql volatile set search_path = '' as $$
#variable_conflict use_column
declare
  own billing.subscriptions;
  -- As they are hashed: provider:id.
  subscriptions text[];
  customers text[];
  answer text;
begin
  -- An event that is being applied or stored comes before or after.
  perform pg_advisory_xact_lock(k.lock)
  from (
    select distinct l.lock
    from billing.ids_of(erase_account.account_id) as n, lateral (values
      (hashtextextended(n.subscription_id, 0)), (billing.customer_lock(n.provider, n.customer_id))
    ) as l (lock)
    order by l.lock
  ) as k;
  select s.* into own from billing.subscriptions s
  where s.account_id = erase_account.account_id and s.status <> 'canceled' and not force
  limit 1;
  if found then
    raise exception 'Subscription % is % at provider %: nothing was erased.', own.id, own.status, own.provider
      using hint = 'Cancel it at the provider, and wait until the record is canceled; or use force => true.';
  end if;

  select
    array_agg(n.provider || ':' || n.subscription_id) filter (where not exists (
      select from billing.subscriptions o where o.id = n.subscription_id and o.account_id <> erase_account.account_id
    )),
    array_agg(n.provider || ':' || n.customer_id) filter (where not exists (
      select from billing.subscriptions o
      where o.provider = n.provider and o.customer_id = n.customer_id and o.account_id <> erase_account.account_id
      union all
      select from billing.customers o
      where o.provider = n.provider and o.customer_id = n.customer_id and o.account_id <> erase_account.account_id
    ))
  into subscriptions, customers
  from billing.ids_of(erase_account.account_id) as n;
  insert into billing.erasures (hash)
  select distinct sha256(k.key || convert_to(n.name, 'UTF8'))
  from billing.erasure_key k, unnest(subscriptions || customers) as n (name)
  where n.name is not null
  on conflict do nothing;

  with records as (
    delete from billing.subscriptions s where s.account_id = erase_account.account_id returning 1
  ),
  failures as (
    delete from billing.failed_events f
    where f.account_id = erase_account.account_id
      or f.provider || ':' || f.subscription_id = any (subscriptions)
      or f.provider || ':' || f.customer_id = any (customers)
      or jsonb_path_exists(
        f.payload, '$.** ? (@.accountId == $id || @.client_reference_id == $id)', jsonb_build_object('id', erase_account.account_id)
      )
    returning 1
  ),
  customers as (
    delete from billing.customers c where c.account_id = erase_account.account_id
  ),
  notifications as (
    delete from billing.notifications n where n.account_id = erase_account.account_id returning 1
  )
  select format(
    'Erased: %s subscriptions, %s failed events, %s notifications.',
    (select count(*) from records), (select count(*) from failures), (select count(*) from notifications)
  ) into answer;
  return answer;
end;
$$;
comment on function billing.erase_account is
  'Run in the SQL editor: deletes what is stored of an account. Later events of its subscriptions and customers have no effect. Raises an error while a subscription is not canceled, unless force is true.';

create or replace function billing.forget_erasure(provider text, id text)
returns text language plpgsql volatile set search_path = '' as $$
begin
  delete from billing.erasures e
  using billing.erasure_key k
  where e.hash = sha256(k.key || convert_to(forget_erasure.provider || ':' || forget_erasure.id, 'UTF8'));
  if not found then
    return 'It was not erased: nothing to forget.';
  end if;
  return 'Its events have an effect again. Have the provider send them again, or run: deno task reconcile --apply';
end;
$$;
comment on function billing.forget_erasure is
  'Run in the SQL editor: undoes billing.erase_account for a subscription or customer, for its events to come.';

-- Views for monitoring, fast with a large ledger, too: its size is the planner's estimate.
create or replace view billing.events_per_hour with (security_invoker = true) as
select date_trunc('hour', e.at) as hour, e.type, e.outcome, count(*) as events
from (
  select p.processed_at as at, p.type, p.outcome
  from billing.processed_events p where p.processed_at > now() - interval '3 days'
  union all
  select f.last_failed_at, f.type, 'failed'
  from billing.failed_events f where f.resolved_at is null and f.last_failed_at > now() - interval '3 days'
) as e
group by hour, e.type, e.outcome
order by hour desc, events desc;
comment on view billing.events_per_hour is 'Events of the last three days per hour, type and outcome (applied, stale, or failed and still open).';

create or replace view billing.health with (security_invoker = true) as
select
  (select max(p.processed_at) from billing.processed_events p) as last_event_at,
  f.open_failures, f.oldest_open_failure, f.retries_requested, n.notifications_pending, n.oldest_pending_notification,
  (select count(*) from billing.notifications d where d.status in ('dead', 'undeliverable')) as notifications_given_up,
  (
    select case when count(l.scheduled_run_at) = 2 then min(l.scheduled_run_at) end from billing.leases l
  ) as last_scheduled_run_at,
  (
    select greatest(c.reltuples, 0)::bigint from pg_catalog.pg_class c
    where c.oid = 'billing.processed_events'::regclass
  ) as ledger_rows_estimate,
  array(
    select p.proname::text from pg_catalog.pg_proc p
    where p.pronamespace = 'billing'::regnamespace and p.proname like 'on\_%'
      and to_regprocedure(format('billing.%I(text, jsonb)', p.proname)) = p.oid
      and has_function_privilege('service_role', p.oid, 'execute')
    order by p.proname
  ) as handlers
from
  (
    select
      count(*) as open_failures, min(o.first_failed_at) as oldest_open_failure,
      count(o.retry_requested_at) as retries_requested
    from billing.failed_events o where o.resolved_at is null
  ) as f,
  (
    select count(*) as notifications_pending, min(w.created_at) as oldest_pending_notification
    from billing.notifications w where w.status = 'pending'
  ) as n;
comment on view billing.health is
  'One row: the time of the newest event, open failures, pending notifications, notifications that were given up, when both queues were last worked on by the schedule without a fault, the size of the ledger as the planner estimates it, and the handlers that service_role may call.';
