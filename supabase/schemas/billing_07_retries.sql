-- Retries of failures: by the schedule, by what cures them, and at the request of a person. A run
-- of the worker claims them, tries their events as deliveries, and settles them.

-- Returns when the schedule retries a failure: as planned, or else after its next wait. Null if no
-- retry can help: the code is permanent, the payload was repaired, or the last retry has failed.
-- retries: how many of the schedule have failed.
create function billing.next_retry(
  error_code text,
  is_repaired boolean,
  retries integer,
  planned timestamptz default null
)
returns timestamptz
language sql stable
return case
  when not is_repaired and error_code in (
    'record_locked', 'database_unavailable', 'overloaded', 'apply_failed', 'subscription_unknown',
    'creation_pending', 'handler_missing', 'deployment_fault', 'internal_error'
  )
  -- Each wait is from the attempt before it.
  then coalesce(
    planned,
    clock_timestamp() + ('{1 min,5 min,30 min,2 h,6 h,12 h,24 h}'::interval[])[retries + 1]
  )
end;

-- Requests a retry of the failures that lacked one of these subscriptions, or the account of one of
-- these customers; returns whether there is one. A repaired one is left to the person who repaired
-- it. A run that is trying one of them loses its claim: it has read the state before, and must not
-- settle it as failed.
--
-- A failure of the other provider with the same ID may be among them; its retry only fails again.
create function billing.request_retries(
  providers text[],
  subscriptions text[],
  customers text[]
)
returns boolean
language plpgsql volatile
set search_path = ''
set jit = off
set enable_seqscan = off
-- An app may add many customers at once.
set plan_cache_mode = force_generic_plan
as $$
declare
  waiting record;
begin
  for waiting in
    select f.provider, f.event_id
    from billing.failed_events f
    -- "is true": the planner's policy (04).
    where (f.provider = any (providers)) is true
      and f.resolution is null
      and f.original_payload is null
      and f.payload is not null
      and (
        f.subscription_id = any (subscriptions)
          and f.error_code in ('subscription_unknown', 'creation_pending', 'account_unknown')
        or f.customer_id = any (customers)
          and f.error_code = 'account_unknown'
      )
    for update skip locked
  loop
    update billing.failed_events f set
      retry_requested_at = coalesce(f.retry_requested_at, now()),
      retry_lease_id = null
    where (f.provider, f.event_id) = (waiting.provider, waiting.event_id);
  end loop;
  return found;
end;
$$;

-- For a customer who is new or corrected, by a checkout or by the app. The lock is shared:
-- transactions that add different customers, in whatever order, must not wait for each other.
create function billing.retry_for_customer()
returns trigger
language plpgsql volatile
set search_path = ''
as $$
begin
  perform pg_advisory_xact_lock_shared(billing.customer_group_lock(new.provider, new.customer_id));
  if billing.request_retries(array[new.provider], null, array[new.customer_id]) then
    perform billing.wake_worker('retries');
  end if;
  return null;
end;
$$;

-- Deferred, so that the lock is short.
create constraint trigger retry_for_customer
after insert or update on billing.customers
deferrable initially deferred
for each row
execute function billing.retry_for_customer();

-- Returns whether what a failure lacked has come since: the record of its subscription, or the
-- account of its customer. Each is added under a lock, which this takes, too, until the end of the
-- transaction: so either this sees it, or request_retries finds the failure. Transactions that add
-- customers queue behind it, so the caller limits the wait.
create function billing.is_cured(
  provider text,
  error_code text,
  subscription_id text,
  customer_id text
)
returns boolean
language plpgsql volatile
set search_path = ''
as $$
begin
  if error_code in ('subscription_unknown', 'creation_pending', 'account_unknown') then
    perform pg_advisory_xact_lock(billing.subscription_lock(subscription_id));
    if exists (
      select
      from billing.subscriptions s
      where (s.id, s.provider) = (is_cured.subscription_id, is_cured.provider)
    ) then
      return true;
    end if;
  end if;

  if error_code = 'account_unknown' then
    perform pg_advisory_xact_lock(billing.customer_group_lock(provider, customer_id));
    return billing.is_known_customer(provider, customer_id);
  end if;
  return false;
end;
$$;

-- Returns whether a retry is requested that no run has claimed, so that the receiver wakes the
-- worker.
create function billing.has_request()
returns boolean
language plpgsql stable
set search_path = ''
set jit = off
set enable_seqscan = off
as $$
begin
  return exists (
    select
    from billing.failed_events f
    where f.retry_requested_at is not null and f.retry_lease_id is null
  );
end;
$$;

-- Claims up to batch_size failures for a run: requested ones before scheduled ones, each in the
-- order in which the events occurred, at the same time creations first. Two things change that, for
-- all failures of a subscription:
--   An update must not be tried before its creation. So while another session has locked an event,
--   later ones are left out; if this run has claimed one and not settled it, all are.
--   One event may take all the time of a call. So those that an earlier run claimed and did not
--   settle come last, each alone; before them come those that a handler may have refused.
--
-- A worker has 256 MB of memory, so a batch is limited in bytes of JSON text, in which a control
-- character counts six (\u0000).
create function public.billing_claim_failed_events(lease_id uuid, batch_size integer)
returns table (provider text, event_id text, type text, body text, body_encoding text)
language plpgsql volatile
set search_path = ''
set jit = off
set enable_seqscan = off
as $$
declare
  waiting record;
  failure billing.failed_events;
  blocked text[] := '{}'; -- subscriptions of which later events are left out
  claimed integer := 0;
  bytes bigint := 0;
begin
  if not billing.hold_lease('retries', lease_id) then
    return;
  end if;

  for waiting in
    select d.provider, d.event_id, d.subscription_id, d.rank = 2 as goes_alone
    from (
      select
        f.*,
        max(case
          when f.retry_lease_id = lease_id then 3 -- claimed by this run: left out
          when f.retry_lease_id is not null then 2 -- not settled by an earlier run
          when f.error_code in ('apply_failed', 'handler_missing') then 1 -- perhaps by a handler
          else 0
        end) over (partition by coalesce(f.subscription_id, f.event_id)) as rank
      from billing.failed_events f
      where f.resolved_at is null
        and (f.retry_requested_at is not null or f.next_retry_at <= now())
    ) as d
    where d.rank < 3
    order by
      d.retry_requested_at is null,
      d.rank,
      d.occurred_at nulls last,
      d.kind is distinct from 'creation',
      d.first_failed_at,
      d.event_id
    -- More than a batch, because some may be left out.
    limit batch_size * 20
  loop
    continue when waiting.subscription_id = any (blocked);

    -- Read again under the lock.
    select *
    into failure
    from billing.failed_events f
    where f.provider = waiting.provider
      and f.event_id = waiting.event_id
      -- "is true": the planner's policy (04).
      and (
        f.resolved_at is null
        and (f.retry_requested_at is not null or f.next_retry_at <= now())
      ) is true
    for update skip locked;
    if not found then
      blocked := blocked || waiting.subscription_id;
      continue;
    end if;

    bytes := bytes + octet_length(failure.payload::text);
    exit when claimed > 0 and (waiting.goes_alone or bytes > 4 * 1024 * 1024);

    update billing.failed_events f
    set retry_lease_id = lease_id
    where (f.provider, f.event_id) = (failure.provider, failure.event_id);
    return query
    select
      failure.provider,
      failure.event_id,
      failure.type,
      case
        when failure.payload_encoding = 'json' then failure.payload::text
        else failure.payload #>> '{}'
      end,
      failure.payload_encoding;

    claimed := claimed + 1;
    exit when waiting.goes_alone or claimed = batch_size;
  end loop;
end;
$$;

-- Stores the outcomes of a run's retries; returns how many. results: provider, event_id, outcome
-- (applied, duplicate, stale, ignored, failed or untried), error_code and error if it failed, and
-- what the worker has read from the payload, because that may have been repaired. What was resolved
-- meanwhile stays resolved.
--
-- A failure ends the request, if there was one, and then leaves the schedule as it is; else it uses
-- up a retry of it. A requested retry that found the record locked stays requested, and keeps its
-- claim, so only the next run tries it again. One that the run had no time for (untried) only ends
-- its claim.
--
-- Deliveries wait for these rows of the ledger, so this hardly waits for a locked row: the next run
-- tries it.
create function public.billing_settle_failed_events(lease_id uuid, results jsonb)
returns integer
language plpgsql volatile
set search_path = ''
set lock_timeout = '20ms'
set jit = off
-- Each row is looked up by itself: the time of a join depends on statistics, which may be old.
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  -- The row, with the columns of its result instead of its own. fault is the error_code of this
  -- try, null if it succeeded; error_code then still has that of the try before.
  r record;
  settled integer := 0;
begin
  for r in
    select n.*, result ->> 'outcome' as outcome, result ->> 'error_code' as fault
    from jsonb_array_elements(jsonb_strip_nulls(results)) as result
    join billing.failed_events f
      on f.provider = result ->> 'provider' and f.event_id = result ->> 'event_id'
    cross join jsonb_populate_record(f, result) as n
    -- What was applied is resolved already.
    where (f.retry_lease_id = lease_id or f.resolution in ('applied', 'duplicate', 'stale'))
      and (
        result ->> 'error_code' = 'record_locked'
        and f.retry_requested_at is not null
      ) is not true
    order by f.provider, f.event_id
  loop
    begin
      if r.outcome = 'untried' then
        update billing.failed_events f
        set retry_lease_id = null
        where (f.provider, f.event_id, f.retry_lease_id) = (r.provider, r.event_id, lease_id);
        continue;
      end if;

      -- The ID in a repaired payload may differ from that of its row, such as the hash of the body.
      -- That gets into the ledger too, so that the old body, delivered again, does not reopen an
      -- applied event.
      if r.outcome in ('applied', 'duplicate', 'stale') then
        insert into billing.processed_events (provider, event_id, type, outcome)
        values (
          r.provider,
          r.event_id,
          coalesce(r.type, ''),
          replace(r.outcome, 'duplicate', 'applied')
        )
        on conflict do nothing;
      end if;

      update billing.failed_events f set
        type = r.type,
        kind = r.kind,
        subscription_id = r.subscription_id,
        customer_id = r.customer_id,
        account_id = r.account_id,
        occurred_at = r.occurred_at,
        error_code = r.error_code,
        error = r.error,
        resolved_at = case when r.outcome <> 'failed' then coalesce(f.resolved_at, now()) end,
        resolution = nullif(r.outcome, 'failed'),
        attempts = f.attempts + (r.outcome = 'failed')::integer,
        last_failed_at = case when r.outcome = 'failed' then now() else f.last_failed_at end,
        next_retry_at = billing.next_retry(
          r.fault,
          f.original_payload is not null,
          f.scheduled_retries + (f.retry_requested_at is null)::integer,
          planned => case when f.retry_requested_at is not null then f.next_retry_at end
        ),
        scheduled_retries = f.scheduled_retries
          + (r.outcome = 'failed' and f.retry_requested_at is null)::integer,
        retry_lease_id = null,
        retry_requested_at = case
          when billing.is_cured(f.provider, r.fault, r.subscription_id, r.customer_id) then now()
        end
      where (f.provider, f.event_id) = (r.provider, r.event_id)
        and (
          f.resolved_at is null and f.retry_lease_id = lease_id
          or f.resolution = r.outcome
        );
      settled := settled + found::integer;
    exception when lock_not_available then
      null; -- another transaction has locked it
    end;
  end loop;
  return settled;
end;
$$;
