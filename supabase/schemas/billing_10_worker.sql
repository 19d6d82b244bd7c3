-- The worker: one run at a time and queue, how it is woken, and what is pruned. On a Supabase
-- project, pg_cron runs the schedule, pg_net makes the call, Vault stores the key. A plain Postgres
-- has none of them.

create table billing.leases (
  queue text primary key check (queue in ('retries', 'notifications', 'sweep')),
  -- The run that has the queue: only it can settle what it claimed.
  lease_id uuid not null,
  held_until timestamptz not null,
  -- Whether another run has asked for the queue meanwhile: there may be more to do.
  is_wanted boolean not null default false,
  -- When a run that the schedule had woken last ended without a fault.
  scheduled_run_at timestamptz
);

comment on table billing.leases is
  'Which run of the worker has a queue: retries, notifications (and alerts), or sweep.';

create table billing.pauses (
  -- resend, the host of NOTIFICATION_URL, or "alerts to" and the host of ALERT_URL
  destination text primary key,
  paused_until timestamptz not null
);

comment on table billing.pauses is
  'Destinations that answered 429. Deleting a row ends the pause.';

-- Takes or extends the lease of a queue, which locks its row, so claims of a queue run one after
-- the other. False if another run has the queue, which then looks once more for work before it
-- ends; or if the destination has asked for a pause.
create function billing.hold_lease(
  queue text,
  lease_id uuid,
  destination text default null
)
returns boolean
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
begin
  insert into billing.leases as l (queue, lease_id, held_until)
  values (
    hold_lease.queue,
    hold_lease.lease_id,
    -- Longer than a batch takes (deliver_notifications.ts, retry_failures.ts).
    clock_timestamp() + interval '60 s'
  )
  on conflict (queue) do update set
    lease_id = excluded.lease_id,
    held_until = excluded.held_until
  where l.lease_id = excluded.lease_id or l.held_until <= clock_timestamp();

  if not found then
    update billing.leases l
    set is_wanted = true
    where l.queue = hold_lease.queue and not l.is_wanted;
    return false;
  end if;

  return not exists (
    select
    from billing.pauses p
    where p.destination = hold_lease.destination and p.paused_until > now()
  );
end;
$$;

-- Ends the lease of a queue at the end of a run, and returns false. But if another run has asked
-- for the queue meanwhile, it returns true, and this run goes on; or, if its time is over
-- (is_last), it ends the lease and wakes the worker.
--
-- is_scheduled: the schedule has woken the run, which had no fault. That is noted also if another
-- run has the lease.
create function public.billing_release_lease(
  queue text,
  lease_id uuid,
  is_last boolean default true,
  is_scheduled boolean default false
)
returns boolean
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  of_queue constant text := billing_release_lease.queue;
  run constant uuid := billing_release_lease.lease_id;
  was_wanted boolean;
begin
  perform billing.tell_version();

  -- Locked before it is read: a run that is just asking for the queue holds the row. It has asked
  -- by then, or gets the queue.
  perform from billing.leases l where l.queue = of_queue for update;

  update billing.leases l
  set is_wanted = false
  where l.queue = of_queue and l.lease_id = run and l.is_wanted;
  was_wanted := found;
  if was_wanted and not is_last then
    return true;
  end if;

  -- The row may be missing: without a channel, no run ever takes the lease of the notifications.
  insert into billing.leases as l (queue, lease_id, held_until, scheduled_run_at)
  values (of_queue, run, clock_timestamp(), case when is_scheduled then now() end)
  on conflict (queue) do update set
    held_until = case when l.lease_id = run then clock_timestamp() else l.held_until end,
    scheduled_run_at = coalesce(excluded.scheduled_run_at, l.scheduled_run_at);

  perform billing.wake_worker(of_queue) where was_wanted;
  return false;
end;
$$;


-- The schedule ------------------------------------------------------------------------------------

-- Wakes the worker without waiting for it: it claims its work in the database, so a lost or
-- duplicate call does no harm. Without a queue, it is the schedule that wakes it.
--
-- Returns false if nothing is scheduled, or if the caller has no Vault or pg_net, or may not use
-- it. What fails besides, such as Vault in a project that was restored elsewhere, is a warning: it
-- must not undo its caller.
create function billing.wake_worker(queue text default null)
returns boolean
language plpgsql volatile
set search_path = ''
set lock_timeout = '100ms'
as $$
declare
  call bigint;
begin
  -- A longer timeout may delay the project's other calls through pg_net.
  execute $sql$
    select net.http_post(
      url := u.decrypted_secret || coalesce('?queue=' || $1, ''),
      headers := jsonb_build_object(
        'content-type', 'application/json',
        'apikey', k.decrypted_secret
      ),
      body := '{}'::jsonb,
      timeout_milliseconds := 5000
    )
    from vault.decrypted_secrets u, vault.decrypted_secrets k
    where u.name = 'billing_worker_url'
      and k.name = 'billing_worker_key'
      and u.decrypted_secret is not null
      and k.decrypted_secret is not null
  $sql$ into call using queue;
  return call is not null;
exception
  when undefined_table or undefined_function or insufficient_privilege then
    return false;
  when others or query_canceled or assert_failure then
    raise warning 'The worker was not woken: %', sqlerrm
      using errcode = sqlstate,
        hint = 'Run billing.schedule_worker again, '
          || 'with the URL and the secret key of this project.';
    return false;
end;
$$;

create function billing.schedule_worker(project_url text, secret_key text)
returns text
language plpgsql volatile
set search_path = ''
as $$
begin
  -- The secret key goes to this URL: over https, or to a local stack, by its names in and out of a
  -- container.
  if coalesce(project_url, '') !~ (
    '^(https://[^/?#@[:space:]]+'
    || '|http://(localhost|127(\.[0-9]{1,3}){3}|kong|host\.docker\.internal)(:[0-9]+)?)/?$'
  ) then
    raise exception 'The project URL must look like %, without a path.',
      'https://<project-ref>.supabase.co'
      using hint = 'Copy it from Project Settings, API. Only a local stack may have http://.';
  end if;
  if coalesce(secret_key, '') !~ '^sb_secret_' then
    raise exception 'The key must be a secret key of the project (sb_secret_...).'
      using hint = 'Copy it from Project Settings, API Keys.';
  end if;

  -- Each extension in the schema that Supabase uses; supabase_vault names its own and creates it.
  -- Not "if not exists", because Supabase runs a script after pg_cron is created.
  execute coalesce((
    select string_agg(format('create extension %I %s;', e.name, e.place), ' ')
    from (
      values
        ('pg_cron', 'schema pg_catalog'),
        ('pg_net', 'schema extensions'),
        ('supabase_vault', 'cascade')
    ) as e (name, place)
    where e.name not in (select x.extname from pg_extension x)
  ), '');

  perform billing.unschedule_worker();
  execute $sql$
    select
      vault.create_secret($1, 'billing_worker_url'),
      vault.create_secret($2, 'billing_worker_key'),
      cron.schedule('billing-worker', '* * * * *', 'select billing.wake_worker()'),
      cron.schedule('billing-prune', '*/5 * * * *', 'select billing.prune()')
  $sql$ using rtrim(project_url, '/') || '/functions/v1/billing-worker', secret_key;
  return 'The worker is woken every minute, and old rows are pruned. '
    || 'Undo it with: select billing.unschedule_worker();';
end;
$$;

comment on function billing.schedule_worker is
  'Wakes the worker every minute, and prunes. Run it again to replace URL or key.';

create function billing.unschedule_worker()
returns text
language plpgsql volatile
set search_path = ''
as $$
begin
  if to_regclass('cron.job') is not null then
    execute $sql$
      select cron.unschedule(jobname) from cron.job where jobname ~ '^billing-(worker|prune)$'
    $sql$;
  end if;
  if to_regclass('vault.secrets') is not null then
    execute $sql$
      delete from vault.secrets where name in ('billing_worker_url', 'billing_worker_key')
    $sql$;
  end if;
  return 'Only the webhook still wakes the worker, for what it has just stored; '
    || 'and nothing is pruned.';
end;
$$;

comment on function billing.unschedule_worker is
  'Undoes billing.schedule_worker, and deletes its secrets from Vault.';

-- One batch per table and call, so that no call holds locks for long. A provider lets a person
-- resend an event for 30 days, so the ledger still has every event that can arrive again.
create function billing.prune(
  ledger_keeps interval default '90 days',
  settled_rows_keep interval default '90 days',
  payloads_keep interval default '30 days',
  batch_size integer default 20000
)
returns table (ledger_rows bigint, payloads bigint, failures bigint, notifications bigint)
language plpgsql volatile
set search_path = ''
as $$
declare
  -- By ctid, which cannot change while the row is locked. With a join by key, a plan may read the
  -- whole table, or select the batch again for every row.
  batch constant text := $sql$
    where ctid = any (array(
      select ctid
      from billing.%1$I
      where %2$I < now() - $1 and %3$s
      order by %2$I
      limit $2
      for update skip locked
    ))
  $sql$;
begin
  execute 'delete from billing.processed_events'
    || format(batch, 'processed_events', 'processed_at', 'true')
  using ledger_keeps, batch_size;
  get diagnostics ledger_rows = row_count;

  execute 'update billing.failed_events set payload = null, original_payload = null'
    || format(
      batch,
      'failed_events',
      'resolved_at',
      'num_nonnulls(payload, original_payload) > 0'
    )
  using payloads_keep, batch_size;
  get diagnostics payloads = row_count;

  execute 'delete from billing.failed_events'
    || format(batch, 'failed_events', 'resolved_at', 'true')
  using settled_rows_keep, batch_size;
  get diagnostics failures = row_count;

  execute 'delete from billing.notifications'
    || format(batch, 'notifications', 'created_at', 'status <> ''pending''')
  using settled_rows_keep, batch_size;
  get diagnostics notifications = row_count;

  delete from billing.missed_events where found_at < now() - settled_rows_keep;
  update billing.installation
  set pruned_until = greatest(pruned_until, now() - least(ledger_keeps, settled_rows_keep))
  where ledger_rows + failures > 0;

  -- pg_cron keeps a row of each run for ever; that of a run that could not connect has no end.
  begin
    if has_table_privilege(to_regclass('cron.job_run_details'), 'delete') then
      execute $sql$
        delete from cron.job_run_details d
        using cron.job j
        where j.jobname in ('billing-worker', 'billing-prune')
          and d.jobid = j.jobid
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

comment on function billing.prune is
  'Deletes old rows, up to batch_size per table, but open or pending ones; payloads sooner.';
