-- Events that failed: how they are stored, repaired, and resolved; what a person may do.

create table billing.failed_events (
  provider text collate "C" not null,
  -- sha256:<hash of the body in hex> if the event has no usable ID.
  event_id text collate "C" not null check (char_length(event_id) between 1 and 255),
  type text,
  payload jsonb,
  -- text if jsonb cannot hold the body, base64 for bytes.
  payload_encoding text not null check (payload_encoding in ('json', 'text', 'base64')),
  original_payload jsonb,

  error_code text not null,
  error text not null,
  attempts integer not null default 1 check (attempts > 0),
  first_failed_at timestamptz not null default now(),
  last_failed_at timestamptz not null default now(),

  -- A person or a cure has requested a retry.
  retry_requested_at timestamptz,
  next_retry_at timestamptz,
  scheduled_retries smallint not null default 0,
  -- The run of the worker that has claimed it.
  retry_lease_id uuid,

  -- How it ended; all null while it is open.
  resolution text check (
    resolution in (
      'applied',
      'duplicate',
      'stale',
      'ignored',
      'by hand'
    )
  ),
  resolved_at timestamptz,
  resolution_note text,
  resolved_by text,

  -- As far as the receiver could read them, because only it knows where a provider puts them.
  kind text,
  subscription_id text collate "C",
  customer_id text collate "C",
  account_id text collate "C",
  occurred_at timestamptz,
  is_missed boolean, -- a sweep has found it

  -- In this order, because people search by the ID alone.
  primary key (event_id, provider),
  check ((resolved_at is null) = (resolution is null))
);

create index failed_events_open on billing.failed_events (error_code, first_failed_at)
where
  resolved_at is null;

create index failed_events_to_retry on billing.failed_events (retry_requested_at)
where
  retry_requested_at is not null;

create index failed_events_next_retry on billing.failed_events (next_retry_at)
where
  next_retry_at is not null;

-- For what cures them, for erasures, and for people.
create index failed_events_subscription_id on billing.failed_events (subscription_id);

create index failed_events_customer_id on billing.failed_events (customer_id);

create index failed_events_account_id on billing.failed_events (account_id);

create index failed_events_resolved on billing.failed_events (resolved_at)
where
  resolved_at is not null;

comment on table billing.failed_events is
  'Verified events that failed; open until resolved_at. See docs/operate.md.';
comment on column billing.failed_events.payload is
  'As received, or as repaired: then original_payload is as received. Null after pruning.';
comment on column billing.failed_events.next_retry_at is
  'When the schedule retries it; null if it does not.';
comment on column billing.failed_events.resolution is
  'How it ended. ignored: it has no effect (UNMAPPED_SUBSCRIPTIONS).';

-- Stores a failure, or counts one more attempt and opens it again. In a call of its own, because
-- what should have applied the event was rolled back.
--
-- failure has columns of billing.failed_events; body, and body_encoding (text or base64); and
-- fallback_account, the same as account_id if only the provider's customer names it.
--
-- Returns `stored`; `retry` if what it lacked has come, and a retry is requested; or, if nothing
-- was stored, `applied` (meanwhile) or `erased`.
--
-- This inserts the event's row into the ledger, and deletes it at the end. Meanwhile, a call that
-- applies the event waits, with all events in it, and then finds the failure and resolves it. So
-- this waits only briefly for a locked row.
create function public.billing_record_failed_event(failure jsonb)
returns text
language plpgsql volatile
set search_path = ''
set lock_timeout = '500ms'
as $$
declare
  failed billing.failed_events := jsonb_populate_record(null::billing.failed_events, failure);
  body constant text := failure ->> 'body';
  event billing.event;
  erasure bytea;
  is_cured boolean;
  is_new boolean;
begin
  insert into billing.processed_events (provider, event_id, type)
  values (failed.provider, failed.event_id, coalesce(failed.type, ''))
  on conflict do nothing;
  if not found then
    return 'applied';
  end if;

  -- A call that applies its creation, or erases its account, holds one of these. So either this
  -- sees what that has done, or that finds this failure.
  perform pg_advisory_xact_lock_shared(billing.account_lock(failed.account_id));
  perform pg_advisory_xact_lock(billing.subscription_lock(failed.subscription_id));
  perform pg_advisory_xact_lock_shared(
    billing.customer_erasure_lock(failed.provider, failed.customer_id)
  );

  event := jsonb_populate_record(null::billing.event, failure);
  event.kind := coalesce(event.kind, 'other');
  event.account_id := nullif(event.account_id, event.fallback_account);
  event.report := jsonb_build_object('customer_id', failed.customer_id);
  erasure := billing.erasure_of(event);
  if erasure is not null then
    update billing.erasures e
    set purchases = e.purchases + 1
    where e.hash = erasure and failed.kind in ('creation', 'opening_update');

    delete from billing.processed_events p
    where (p.provider, p.event_id) = (failed.provider, failed.event_id);
    return 'erased';
  end if;

  begin
    perform set_config('lock_timeout', '20ms', true);
    is_cured := billing.is_cured(
      failed.provider, failed.error_code, failed.subscription_id, failed.customer_id
    );
  exception when lock_not_available then
    -- Customers are being added, maybe a million: the retry will see.
    is_cured := true;
  end;
  perform set_config('lock_timeout', '100ms', true);

  -- The body becomes jsonb here, because JSON.parse turns 1e400 into null and rounds large
  -- integers. One that jsonb refuses (\u0000, a lone surrogate, nesting beyond the stack) is stored
  -- as a JSON string.
  failed.payload := to_jsonb(body);
  failed.payload_encoding := failure ->> 'body_encoding';
  begin
    if failed.payload_encoding = 'text' and not billing.has_long_number(body::jsonb) then
      failed.payload := body::jsonb;
      failed.payload_encoding := 'json';
    end if;
  exception when others then
    null;
  end;

  failed.attempts := 1;
  failed.first_failed_at := now();
  failed.last_failed_at := now();
  failed.scheduled_retries := 0;
  failed.next_retry_at := billing.next_retry(failed.error_code, false, 0);
  failed.retry_requested_at := case when is_cured then now() end;

  insert into billing.failed_events as f
  values (failed.*)
  on conflict (provider, event_id) do update set
    attempts = f.attempts + 1,
    last_failed_at = now(),

    -- A repaired row keeps its payload, because the provider sends the old body again,
    (
      type, payload, payload_encoding,
      kind, subscription_id, customer_id, account_id, occurred_at,
      retry_requested_at
    ) = (
      select
        k.type, k.payload, k.payload_encoding,
        k.kind, k.subscription_id, k.customer_id, k.account_id, k.occurred_at,
        coalesce(f.retry_requested_at, k.retry_requested_at)
      from unnest(array[case when f.original_payload is null then excluded else f end]) as k
    ),
    -- and its error, by which it is retried, while it waits for its retry.
    error_code = case
      when excluded.error_code = 'repair_pending' then f.error_code
      else excluded.error_code
    end,
    error = case
      when excluded.error_code = 'repair_pending' then f.error
      else excluded.error
    end,

    -- The schedule goes on; one that was resolved has none, and begins anew.
    next_retry_at = billing.next_retry(
      excluded.error_code,
      f.original_payload is not null,
      case when f.resolved_at is null then f.scheduled_retries else 0 end,
      planned => f.next_retry_at
    ),
    scheduled_retries = case when f.resolved_at is null then f.scheduled_retries else 0 end,

    resolved_at = null,
    resolution = null,
    resolution_note = null,
    resolved_by = null
  returning f.attempts = 1 into is_new;

  perform billing.count_missed(failed.provider, array[failed.type])
  where is_new and failed.is_missed;

  delete from billing.processed_events p
  where (p.provider, p.event_id) = (failed.provider, failed.event_id);
  return case when is_cured then 'retry' else 'stored' end;
end;
$$;

-- Returns whether a number has more than 40 digits before or after the point, without converting it
-- to text: as text, 1e131071 has 131,072 digits, and a few thousand of them exhaust the memory. No
-- field of an event needs such a number.
create function billing.has_long_number(payload jsonb)
returns boolean
language sql immutable
return exists (
  select
  from jsonb_path_query(payload, 'strict $.** ? (@.type() == "number")') as found (number)
  where abs(found.number::numeric) >= 1e40 or scale(found.number::numeric) > 40
);

-- Keeps the received payload when a person repairs it. It ends the claim of a run that has read the
-- old payload: billing.resolve_failures then refuses its event. A resolved row cannot be repaired:
-- it would look as if the repaired payload had been applied.
create function billing.keep_original_payload()
returns trigger
language plpgsql volatile
set search_path = ''
as $$
begin
  if new.resolved_at is not null then
    raise exception 'Cannot repair %: it is already resolved (%).', new.event_id, new.resolution
      using hint = 'If it was resolved by hand or ignored, open it first: '
        || 'billing.reopen_failed_event.';
  elsif billing.has_long_number(new.payload) then
    raise exception 'Cannot repair %: the payload has a number of more than 40 digits.',
      new.event_id
      using hint = 'Remove the number, or write it as a string.';
  end if;

  new.original_payload := coalesce(old.original_payload, old.payload);
  new.payload_encoding := case
    when jsonb_typeof(new.payload) = 'object' then 'json'
    else new.payload_encoding
  end;
  new.retry_lease_id := null;
  new.next_retry_at := null;
  return new;
end;
$$;

create trigger keep_original_payload
before update of payload on billing.failed_events
for each row
-- With the same attempts, it is not the change of a delivery.
when (
  old.payload is distinct from new.payload
  and new.payload is not null
  and old.attempts = new.attempts
)
execute function billing.keep_original_payload();

-- Resolves the open failures of events that were applied.
--
-- Raises BW004 for the first event that must not be applied now: its failure was repaired, and only
-- the run that has claimed the repair may apply it; or it comes from a run whose claim is gone,
-- because the row was repaired, resolved, cured or claimed again. Each of these ends the claim, so
-- the lease tells.
create function billing.resolve_failures(steps billing.step[])
returns void
language plpgsql volatile
set search_path = ''
as $$
declare
  refused record;
begin
  select
    (s.event).event_id,
    (s.event).retry ->> 'event_id' as row_id,
    failure.is_repaired
  into refused
  from (select e.*, ((e.event).retry ->> 'lease_id')::uuid as lease from unnest(steps) as e) as s
  left join lateral (
    select
      f.original_payload is not null
        and (f.retry_lease_id = s.lease) is not true
        and (s.event).is_rehearsal is not true as is_repaired
    from billing.failed_events f
    where f.provider = (s.event).provider
      and f.event_id = (s.event).event_id
      and f.resolution is null
    for update nowait
  ) as failure on true
  -- The row that the run claimed; its ID may differ from the event's (07).
  left join lateral (
    select f.event_id
    from billing.failed_events f
    where f.provider = (s.event).provider
      and f.event_id = (s.event).retry ->> 'event_id'
      and f.resolution is null
      and f.retry_lease_id = s.lease
    for update nowait
  ) as claimed on true
  where failure.is_repaired or s.lease is not null and claimed.event_id is null
  limit 1;

  if refused.is_repaired then
    raise exception 'Event % was repaired in failed_events and waits for its retry.',
      refused.event_id
      using errcode = 'BW004',
        hint = format('select billing.retry_failed_event(%L);', refused.event_id);
  elsif found then
    raise exception 'The row of % in failed_events was changed after its claim.', refused.row_id
      using errcode = 'BW004';
  end if;

  merge into billing.failed_events as f
  using unnest(steps) as s
  on f.provider = (s.event).provider
    and f.event_id = any (array[(s.event).event_id, (s.event).retry ->> 'event_id'])
    and f.resolution is null

  -- Nothing of an erased account is kept.
  when matched and s.outcome = 'erased' then delete

  when matched and s.outcome <> 'failed' then update set
    resolved_at = now(),
    resolution = s.outcome,
    next_retry_at = null,
    retry_requested_at = null,
    retry_lease_id = null;
end;
$$;


-- For people in the SQL editor --------------------------------------------------------------------

create view billing.open_failures
with (security_invoker = true)
as
select
  count(*) over (partition by f.error_code) as alike,
  f.error_code,
  f.type,
  f.event_id,
  f.provider,
  f.subscription_id,
  f.account_id,
  f.error,
  f.attempts,
  f.first_failed_at,
  f.last_failed_at,
  f.retry_requested_at is not null as retry_requested,
  f.next_retry_at,
  f.original_payload is not null as repaired
from billing.failed_events f
where f.resolved_at is null
order by alike desc, f.error_code, f.first_failed_at;

comment on view billing.open_failures is
  'Open failures, the most frequent error first. alike: how many have the same error_code.';

-- Returns the failure that a person names, if it is in one of these states, and locks it.
create function billing.named_failure(
  event_id text,
  of_provider text,
  of_states text[] default '{open}'
)
returns billing.failed_events
language plpgsql volatile
set search_path = ''
as $$
declare
  named constant billing.failed_events[] := array(
    select f
    from billing.failed_events f
    where f.event_id = named_failure.event_id
      and (f.provider = of_provider) is not false
      and coalesce(f.resolution, 'open') = any (of_states)
    order by f.provider
    for update
  );
begin
  if cardinality(named) = 0 then
    raise exception 'No failure with the id % has the state %.',
      event_id || coalesce(' (provider ' || of_provider || ')', ''),
      array_to_string(of_states, ' or ')
      using hint = format(
        'select provider, resolution from billing.failed_events where event_id = %L;',
        event_id
      );
  elsif cardinality(named) > 1 then
    raise exception 'Providers % and % both have a failed event with the id %: add of_provider.',
      named[1].provider, named[2].provider, event_id;
  end if;
  return named[1];
end;
$$;

create function billing.retry_failed_event(
  event_id text,
  of_provider text default null
)
returns text
language plpgsql volatile
set search_path = ''
as $$
declare
  named constant billing.failed_events := billing.named_failure(event_id, of_provider);
begin
  if named.payload is null then
    raise exception 'Cannot retry %: its payload was pruned.', event_id
      using hint = 'Have the provider send it again.';
  end if;

  update billing.failed_events f
  set retry_requested_at = coalesce(f.retry_requested_at, now())
  where (f.provider, f.event_id) = (named.provider, named.event_id);
  return billing.retry_request_answer(1);
end;
$$;

comment on function billing.retry_failed_event is
  'Requests a retry of an open failure, through the code that handles deliveries.';

-- This locks many rows, so waiting for a locked one could deadlock, and hold up deliveries. With
-- old statistics, any join but by hash may compare each row with each other one.
create function billing.retry_failed_events(
  of_type text default null,
  of_error_code text default null,
  failed_since timestamptz default null,
  failed_until timestamptz default null
)
returns text
language plpgsql volatile
set search_path = ''
set jit = off
set enable_nestloop = off
set enable_mergejoin = off
as $$
declare
  requested integer;
  locked integer;
begin
  with matching as materialized (
    select f.provider, f.event_id
    from billing.failed_events f
    where f.resolved_at is null
      and f.payload is not null
      and (of_type is null or f.type = of_type)
      and (of_error_code is null or f.error_code = of_error_code)
      and f.last_failed_at >= coalesce(failed_since, '-infinity')
      and f.last_failed_at < coalesce(failed_until, 'infinity')
  ),
  updated as (
    update billing.failed_events f set
      retry_requested_at = coalesce(f.retry_requested_at, now()),
      scheduled_retries = 0,
      next_retry_at = billing.next_retry(f.error_code, f.original_payload is not null, 0)
    where f.resolved_at is null and (f.provider, f.event_id) in (
      select provider, event_id
      from matching
      join billing.failed_events u using (provider, event_id)
      where u.resolved_at is null
      for update skip locked
    )
    returning 1
  )
  select u.count, m.count - u.count
  into requested, locked
  from (select count(*) from updated) as u, (select count(*) from matching) as m;

  return case
    when requested + locked = 0 then
      'No open failure matches: nothing to retry.'
    when locked = 0 then
      billing.retry_request_answer(requested)
    else
      format('Somebody else has locked %s of them: run this again. ', locked)
        || billing.retry_request_answer(requested)
  end;
end;
$$;

comment on function billing.retry_failed_events is
  'Requests a retry of all open failures, or of those with a type, an error code or a time of '
  'failure; the schedule of each begins anew.';

create function billing.retry_request_answer(requested integer)
returns text
language plpgsql volatile
set search_path = ''
as $$
begin
  return format('Retry requested: %s. The worker %s.', requested, case
    when billing.wake_worker('retries') then 'is on its way'
    else 'retries it at its next run'
  end);
end;
$$;

create function billing.resolve_failed_event(
  event_id text,
  reason text,
  who text default current_user,
  of_provider text default null
)
returns text
language plpgsql volatile
set search_path = ''
as $$
declare
  named billing.failed_events;
begin
  if coalesce(reason, '') !~ '\S' or coalesce(who, '') !~ '\S' then
    raise exception 'Give a reason and your name: %',
      'select billing.resolve_failed_event(''<event id>'', ''<reason>'', ''<your name>'');';
  end if;

  named := billing.named_failure(event_id, of_provider);
  update billing.failed_events f set
    resolved_at = now(),
    resolution = 'by hand',
    resolution_note = reason,
    resolved_by = who,
    next_retry_at = null,
    retry_requested_at = null,
    retry_lease_id = null
  where (f.provider, f.event_id) = (named.provider, named.event_id);
  return 'Resolved by hand. It opens again if the event fails again.';
end;
$$;

comment on function billing.resolve_failed_event is
  'Resolves an open failure without applying the event; stores the reason and the name.';

-- The failure then waits for a person, because its schedule has ended.
create function billing.reopen_failed_event(
  event_id text,
  of_provider text default null
)
returns text
language plpgsql volatile
set search_path = ''
as $$
declare
  -- With another resolution, the event has had its effect.
  named constant billing.failed_events
    := billing.named_failure(event_id, of_provider, '{by hand,ignored}');
begin
  update billing.failed_events f set
    resolved_at = null,
    resolution = null,
    resolution_note = null,
    resolved_by = null,
    scheduled_retries = 0
  where (f.provider, f.event_id) = (named.provider, named.event_id);

  return format(
    'It is open again. Retry it with: select billing.retry_failed_event(%L, %L);',
    named.event_id, named.provider
  );
end;
$$;

comment on function billing.reopen_failed_event is
  'Opens a failure again that was resolved by hand or ignored.';
