-- Failed events: how they are stored, repaired, retried and resolved.

-- Returns whether a number has more than 40 digits before or after the point, without converting it to text: as text,
-- 1e131071 has 131,072 digits, and a few thousand of them exhaust the memory. No field of an event needs such a number.
create or replace function billing.has_long_number(payload jsonb)
returns boolean language sql immutable set search_path = ''
return exists (
  select from jsonb_path_query(payload, 'strict $.** ? (@.type() == "number")') as found (number)
  where abs(found.number::numeric) >= 1e40 or scale(found.number::numeric) > 40
);

-- When the schedule retries a failure whose cause may pass; null if it does not: another code, a repaired payload, or
-- all have failed. retries: how many of the schedule have failed. Each wait counts from the attempt before it.
create or replace function billing.next_retry(error_code text, is_repaired boolean, retries integer)
returns timestamptz language sql stable set search_path = ''
return case when not is_repaired and error_code in (
  'record_locked', 'database_unavailable', 'overloaded', 'apply_failed', 'subscription_unknown', 'creation_pending',
  'handler_missing', 'deployment_fault', 'internal_error'
) then clock_timestamp() + ('{1 min,5 min,30 min,2 h,6 h,12 h,24 h}'::interval[])[retries + 1] end;

-- Stores a failure, or counts one more attempt and opens it again; in a call of its own, since what should have applied
-- the event was rolled back. Returns `stored`; `retry` if what it lacked has come, and a retry is requested too; or
-- stores nothing: `applied` if the event was applied meanwhile, `erased` if its account was erased. The body becomes
-- jsonb here, since JSON.parse turns 1e400 into null and rounds large integers. One that jsonb refuses (\u0000, a lone
-- surrogate, nesting beyond the stack) is stored as a JSON string of the text. p_body_encoding: text or base64.
-- p_fallback_account: p_account_id, if only the provider's customer names it (billing.event).
--
-- This holds the event's row in the ledger: who applies it later finds the failure, and resolves it. Other deliveries
-- of it wait, with the events in their calls. So this waits only briefly for a locked row: half a second if the event
-- may be applied right now, less if somebody has locked its failure.
create or replace function public.billing_record_failed_event(
  p_provider text, p_event_id text, p_body text, p_body_encoding text, p_error_code text, p_error text,
  p_type text default null, p_kind text default null, p_subscription_id text default null,
  p_customer_id text default null, p_account_id text default null, p_occurred_at timestamptz default null,
  p_fallback_account text default null
)
returns text language plpgsql volatile set search_path = ''
set lock_timeout = '500ms'
as $$
declare
  event billing.event;
  erasure bytea;
  is_cured boolean;
  body jsonb := to_jsonb(p_body);
  encoding text := p_body_encoding;
begin
  insert into billing.processed_events (provider, event_id, type)
  values (p_provider, p_event_id, coalesce(p_type, '')) on conflict do nothing;
  if not found then
    return 'applied';
  end if;
  -- A call that applies its creation, or erases its account, holds one of these: one of the two sees the other.
  perform pg_advisory_xact_lock_shared(billing.account_lock(p_account_id));
  perform pg_advisory_xact_lock(hashtextextended(p_subscription_id, 0));
  perform pg_advisory_xact_lock_shared(billing.customer_hash(p_provider, p_customer_id));
  event.provider := p_provider;
  event.kind := coalesce(p_kind, 'other');
  event.subscription_id := p_subscription_id;
  event.account_id := case when p_fallback_account is null then p_account_id end;
  event.fallback_account := p_fallback_account;
  event.report := jsonb_build_object('customer_id', p_customer_id);
  erasure := billing.erasure_of(event);
  if erasure is not null then
    update billing.erasures e set purchases = e.purchases + 1
    where e.hash = erasure and p_kind in ('creation', 'opening_update');
    delete from billing.processed_events p where p.provider = p_provider and p.event_id = p_event_id;
    return 'erased';
  end if;
  begin
    perform set_config('lock_timeout', '20ms', true);
    is_cured := billing.is_cured(p_provider, p_error_code, p_subscription_id, p_customer_id);
  exception when lock_not_available then
    is_cured := true; -- Customers are being added, maybe a million: the retry will see.
  end;
  perform set_config('lock_timeout', '100ms', true);
  begin
    if encoding = 'text' and not billing.has_long_number(p_body::jsonb) then
      body := p_body::jsonb;
      encoding := 'json';
    end if;
  exception when others then
    null;
  end;
  insert into billing.failed_events as f (
    provider, event_id, type, payload, payload_encoding, error_code, error, kind, subscription_id, customer_id,
    account_id, occurred_at, next_retry_at, retry_requested_at
  )
  values (
    p_provider, p_event_id, p_type, body, encoding, p_error_code, p_error, p_kind, p_subscription_id, p_customer_id,
    p_account_id, p_occurred_at, billing.next_retry(p_error_code, false, 0), case when is_cured then now() end
  )
  on conflict (provider, event_id) do update set
    -- A repair stays; the provider sends the old body again.
    (type, payload, payload_encoding, kind, subscription_id, customer_id, account_id, occurred_at,
    retry_requested_at) = (
      select k.type, k.payload, k.payload_encoding, k.kind, k.subscription_id, k.customer_id, k.account_id,
        k.occurred_at, coalesce(f.retry_requested_at, k.retry_requested_at)
      from unnest(array[case when f.original_payload is null then excluded else f end]) as k
    ),
    -- So does the error of a repaired row: rows are retried by it.
    error_code = case excluded.error_code when 'repair_pending' then f.error_code else excluded.error_code end,
    error = case excluded.error_code when 'repair_pending' then f.error else excluded.error end,
    -- A delivery leaves the schedule as it is, unless there is a reason for another one.
    next_retry_at = case
      when excluded.next_retry_at is null or f.original_payload is not null then null
      when f.resolved_at is not null then excluded.next_retry_at
      else coalesce(f.next_retry_at, billing.next_retry(excluded.error_code, false, f.scheduled_retries))
    end,
    scheduled_retries = case when f.resolved_at is null then f.scheduled_retries else 0 end,
    attempts = f.attempts + 1, last_failed_at = now(),
    resolved_at = null, resolution = null, resolution_note = null, resolved_by = null;
  delete from billing.processed_events p where p.provider = p_provider and p.event_id = p_event_id;
  return case when is_cured then 'retry' else 'stored' end;
end;
$$;

-- Returns whether what a failure lacked has come since: the record of its subscription, or the account of its customer.
-- Each is added under a lock, which this takes too; that of customers only briefly, because those who add one queue
-- behind it.
create or replace function billing.is_cured(
  of_provider text, error_code text, subscription_id text, of_customer text
)
returns boolean language plpgsql volatile set search_path = '' as $$
begin
  if (error_code in ('subscription_unknown', 'creation_pending', 'account_unknown')) is not true then
    return false;
  end if;
  perform pg_advisory_xact_lock(hashtextextended(subscription_id, 0));
  if exists (select from billing.subscriptions where (id, provider) = (is_cured.subscription_id, of_provider)) then
    return true;
  elsif error_code = 'account_unknown' and of_customer is not null then
    perform pg_advisory_xact_lock(billing.customer_lock(of_provider, of_customer));
    return billing.is_known_customer(of_provider, of_customer);
  end if;
  return false;
end;
$$;

-- Keeps the received payload when somebody repairs it: a change that counts no attempt, unlike that of a delivery. It
-- ends the claim of a run that has read the old payload, which billing.resolve_failures then refuses. A resolved row
-- cannot be repaired: it would look as if the repaired payload had been applied.
create or replace function billing.keep_original_payload()
returns trigger language plpgsql volatile set search_path = '' as $$
begin
  if new.resolved_at is not null then
    raise exception 'Cannot repair %: it is already resolved (%).', new.event_id, new.resolution
      using hint = 'Nothing was changed. If it was resolved by hand or ignored, open it first: billing.reopen_failed_event.';
  elsif billing.has_long_number(new.payload) then
    raise exception 'Cannot repair %: the payload has a number of more than 40 digits.', new.event_id
      using hint = 'Nothing was changed. Remove the number, or write it as a string.';
  end if;
  new.original_payload := coalesce(old.original_payload, old.payload);
  new.payload_encoding := case jsonb_typeof(new.payload) when 'object' then 'json' else new.payload_encoding end;
  new.retry_lease_id := null;
  new.next_retry_at := null;
  return new;
end;
$$;

create or replace trigger keep_original_payload before update of payload on billing.failed_events for each row
when (old.payload is distinct from new.payload and new.payload is not null and old.attempts = new.attempts)
execute function billing.keep_original_payload();

create or replace view billing.open_failures with (security_invoker = true) as
select
  count(*) over (partition by f.error_code) as alike, f.error_code, f.type, f.event_id, f.provider, f.subscription_id,
  f.account_id, f.error, f.attempts, f.first_failed_at, f.last_failed_at,
  f.retry_requested_at is not null as retry_requested, f.next_retry_at, f.original_payload is not null as repaired
from billing.failed_events f where f.resolved_at is null
order by alike desc, f.error_code, f.first_failed_at;
comment on view billing.open_failures is 'Open failures, the most frequent error first. alike: the number of open failures with the same error_code.';

-- Returns the failure that a person names, and locks it: an open one, or one with another state.
create or replace function billing.named_failure(event_id text, of_provider text, of_state text[] default '{open}')
returns billing.failed_events language plpgsql volatile set search_path = '' as $$
declare
  named constant billing.failed_events[] := array(
    select f from billing.failed_events f
    where f.event_id = named_failure.event_id and (f.provider = of_provider) is not false
      and coalesce(f.resolution, 'open') = any (of_state)
    order by f.provider for update
  );
begin
  if cardinality(named) = 0 then
    raise exception 'No open failure has the id %.', event_id || coalesce(' (provider ' || of_provider || ')', '')
      using hint = format('select provider, resolution from billing.failed_events where event_id = %L;', event_id);
  elsif cardinality(named) > 1 then
    raise exception 'Providers % and % both have a failed event with the id %: add of_provider.',
      named[1].provider, named[2].provider, event_id;
  end if;
  return named[1];
end;
$$;

create or replace function billing.retry_failed_event(event_id text, of_provider text default null)
returns text language plpgsql volatile set search_path = '' as $$
declare
  named constant billing.failed_events := billing.named_failure(event_id, of_provider);
begin
  if named.payload is null then
    raise exception 'Cannot retry %: its payload was pruned.', event_id using hint = 'Have the provider send it again.';
  end if;
  update billing.failed_events f set retry_requested_at = coalesce(f.retry_requested_at, now())
  where f.provider = named.provider and f.event_id = named.event_id;
  return billing.retry_request_answer(1);
end;
$$;
comment on function billing.retry_failed_event is
  'Run in the SQL editor: requests a retry of an open failure, through the code that handles deliveries. Raises an error if no open failure has this id, if both providers have one and of_provider is missing, or if the payload was pruned.';

-- The schedule of each begins anew. This locks many rows, so it must not wait for a locked one: the transaction that
-- holds the lock may wait for one of these rows (a deadlock), and deliveries of these events would wait as well. With
-- old statistics, any join but by hash may compare each row with each other one.
create or replace function billing.retry_failed_events(
  of_type text default null, of_error_code text default null, failed_since timestamptz default null,
  failed_until timestamptz default null
)
returns text language plpgsql volatile set search_path = ''
set jit = off
set enable_nestloop = off
set enable_mergejoin = off
as $$
declare
  asked integer;
  locked integer;
begin
  with matching as materialized (
    select f.provider, f.event_id from billing.failed_events f
    where f.resolved_at is null and f.payload is not null
      and (of_type is null or f.type = of_type) and (of_error_code is null or f.error_code = of_error_code)
      and f.last_failed_at >= coalesce(failed_since, '-infinity')
      and f.last_failed_at < coalesce(failed_until, 'infinity')
  ),
  unlocked as materialized (
    select f.provider, f.event_id from matching m join billing.failed_events f using (provider, event_id)
    where f.resolved_at is null for update of f skip locked
  ),
  requested as (
    update billing.failed_events f set
      retry_requested_at = coalesce(f.retry_requested_at, now()), scheduled_retries = 0,
      next_retry_at = billing.next_retry(f.error_code, f.original_payload is not null, 0)
    from unlocked u where f.provider = u.provider and f.event_id = u.event_id and f.resolved_at is null
    returning 1
  )
  select r.count, m.count - r.count into asked, locked
  from (select count(*) from requested) as r, (select count(*) from matching) as m;
  return case
    when asked + locked = 0 then 'No open failure matches: nothing to retry.'
    when locked = 0 then billing.retry_request_answer(asked)
    else format('Somebody else has locked %s of them: run this again. ', locked) || billing.retry_request_answer(asked)
  end;
end;
$$;
comment on function billing.retry_failed_events is
  'Run in the SQL editor: requests a retry of all open failures, or of those with a type, an error code or a time of failure, in the order in which the events occurred.';

create or replace function billing.retry_request_answer(asked integer)
returns text language plpgsql volatile set search_path = '' as $$
begin
  return format('Retry requested: %s. The worker %s. See: ', asked, case
    when billing.wake_worker('retries') then 'is on its way' else 'retries it at its next run'
  end) || 'select event_id, error, attempts, resolved_at from billing.failed_events order by last_failed_at desc;';
end;
$$;

create or replace function billing.resolve_failed_event(
  event_id text, reason text, who text default current_user, of_provider text default null
)
returns text language plpgsql volatile set search_path = '' as $$
declare
  named billing.failed_events;
begin
  if coalesce(reason, '') !~ '\S' or coalesce(who, '') !~ '\S' then
    raise exception 'Give a reason and your name: select billing.resolve_failed_event(''<event id>'', ''<reason>'', ''<your name>'');';
  end if;
  named := billing.named_failure(event_id, of_provider);
  update billing.failed_events f set
    resolved_at = now(), resolution = 'by hand', resolution_note = reason, resolved_by = who,
    next_retry_at = null, retry_requested_at = null, retry_lease_id = null
  where f.provider = named.provider and f.event_id = named.event_id;
  return 'Resolved by hand. It opens again if the event fails again.';
end;
$$;
comment on function billing.resolve_failed_event is
  'Run in the SQL editor: resolves an open failure without applying the event; stores the reason and the name. Raises an error if both providers have an open failure with this id and of_provider is missing.';

-- It then waits for a person, since its schedule has ended.
create or replace function billing.reopen_failed_event(event_id text, of_provider text default null)
returns text language plpgsql volatile set search_path = '' as $$
declare
  without_effect constant text[] := '{by hand,ignored}';
  state constant text := (
    select coalesce(f.resolution, 'open')
    from billing.failed_events f
    where f.event_id = reopen_failed_event.event_id and (f.provider = of_provider) is not false
    order by f.resolution = any (without_effect) desc nulls last, f.resolution nulls first
    limit 1
  );
  named billing.failed_events;
begin
  if state is null then
    raise exception 'No failed event has the id %.', event_id || coalesce(' (provider ' || of_provider || ')', '');
  elsif state = 'open' then
    raise exception 'The failed event % is open already.', event_id
      using hint = format('select billing.retry_failed_event(%L);', event_id);
  elsif state <> all (without_effect) then
    raise exception 'Cannot open % again: its resolution is %, so the event has had its effect.', event_id, state
      using hint = 'Nothing is left to do.';
  end if;

  named := billing.named_failure(event_id, of_provider, without_effect);
  update billing.failed_events f set
    resolved_at = null, resolution = null, resolution_note = null, resolved_by = null, scheduled_retries = 0
  where f.provider = named.provider and f.event_id = named.event_id;
  return 'It is open again. ' || case
    when named.payload is null then 'Its payload was pruned: have the provider send the event again.'
    else format('Retry it with: select billing.retry_failed_event(%L, %L);', named.event_id, named.provider)
  end;
end;
$$;
comment on function billing.reopen_failed_event is
  'Run in the SQL editor: opens a failure again that was resolved by hand or ignored. Raises an error if the event was applied, or if both providers have one and of_provider is missing.';

-- Takes or extends the lease of a queue; false if another run has it, which then looks once more for work before it
-- ends, or if its receiver has asked for a pause. Claims of a queue run one after the other: this locks its row.
create or replace function billing.hold_lease(p_queue text, p_lease_id uuid, p_destination text default null)
returns boolean language plpgsql volatile set search_path = '' as $$
begin
  -- Longer than a batch takes. After a crash, the queue rests as long.
  insert into billing.leases as l (queue, lease_id, held_until)
  values (p_queue, p_lease_id, clock_timestamp() + interval '60 s')
  on conflict (queue) do update set lease_id = excluded.lease_id, held_until = excluded.held_until
  where l.lease_id = p_lease_id or l.held_until <= clock_timestamp();
  if not found then
    update billing.leases l set is_wanted = true where l.queue = p_queue and not l.is_wanted;
    return false;
  end if;
  return not exists (select from billing.pauses p where p.destination = p_destination and p.paused_until > now());
end;
$$;

-- Ends the lease of a queue at the end of a run. If another run has asked for the queue meanwhile, it returns true
-- instead, and this one goes on; or, if its time is over (p_is_last), wakes the worker. p_is_scheduled: the schedule
-- has woken the run, which had no fault: that is noted also if another run has the lease.
create or replace function public.billing_release_lease(
  p_queue text, p_lease_id uuid, p_is_last boolean default true, p_is_scheduled boolean default false
)
returns boolean language plpgsql volatile set search_path = '' as $$
declare
  was_wanted boolean;
begin
  -- Locked before it is read: a run that is just asking for the queue holds the row. It has asked by then, or gets the queue.
  perform from billing.leases l where l.queue = p_queue for update;
  update billing.leases l set is_wanted = false
  where l.queue = p_queue and l.lease_id = p_lease_id and l.is_wanted;
  was_wanted := found;
  if was_wanted and not p_is_last then
    return true;
  end if;
  -- The row may be missing: without a channel, no run ever takes the lease of the notifications.
  insert into billing.leases as l (queue, lease_id, held_until, scheduled_run_at)
  values (p_queue, p_lease_id, clock_timestamp(), case when p_is_scheduled then now() end)
  on conflict (queue) do update set
    held_until = case when l.lease_id = p_lease_id then clock_timestamp() else l.held_until end,
    scheduled_run_at = coalesce(excluded.scheduled_run_at, l.scheduled_run_at);
  perform billing.wake_worker(p_queue) where was_wanted;
  return false;
end;
$$;

-- Claims up to p_limit failures for a run; none while another run has the queue. Requested ones come before scheduled
-- ones, each in the order in which the events occurred; at the same time, creations first. An update must not be tried
-- before its creation: while an event of a subscription is locked by another session, or was claimed by this run and
-- not settled, later ones of it are left out. What an earlier run has left unsettled comes later and alone, with all of
-- its subscription: one event that takes all the time of a call holds up only itself. What a handler may have refused
-- comes later too: the next try may be as slow. A worker has 256 MB of memory, so a batch is limited in bytes of JSON
-- text, in which a control character counts six.
-- Each row is looked up by itself: the time of a join depends on statistics, which may be old.
create or replace function public.billing_claim_failed_events(p_lease_id uuid, p_limit integer)
returns table (provider text, event_id text, type text, body text, body_encoding text)
language plpgsql volatile set search_path = ''
set jit = off
set enable_seqscan = off -- a plan that was made while the table was small is kept
set enable_nestloop = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  waiting record;
  failure billing.failed_events;
  held text[] := '{}'; -- subscriptions of which later events are left out
  claimed integer := 0;
  bytes bigint := 0;
begin
  if not billing.hold_lease('retries', p_lease_id) then
    return;
  end if;

  for waiting in
    with due as materialized (
      select
        f.provider, f.event_id, f.subscription_id, coalesce(f.subscription_id, f.event_id) as own,
        f.retry_requested_at is null as is_scheduled,
        case
          when f.retry_lease_id = p_lease_id then 3
          when f.retry_lease_id is not null then 2 -- left by an earlier run
          when f.error_code in ('apply_failed', 'handler_missing') then 1
          else 0
        end as delay,
        f.occurred_at, f.kind is distinct from 'creation' as is_later, f.first_failed_at
      from billing.failed_events f
      where (f.retry_requested_at is not null or f.next_retry_at <= now()) and f.resolved_at is null
    ),
    delayed as (
      select d.own, max(d.delay) as delay from due d where d.delay > 0 group by d.own
    )
    select d.provider, d.event_id, d.subscription_id, l.delay is not distinct from 2 as is_left
    from due d left join delayed l using (own)
    where l.delay is distinct from 3
    order by
      d.is_scheduled, coalesce(l.delay, 0), d.occurred_at nulls last, d.is_later, d.first_failed_at, d.event_id
    -- More than a batch, since some may be left out.
    limit p_limit * 20
  loop
    continue when waiting.subscription_id = any (held);
    select * into failure from billing.failed_events f
    where f.provider = waiting.provider and f.event_id = waiting.event_id
      -- "is true", so that a plan cannot take another index than the primary key.
      and (f.retry_lease_id is distinct from p_lease_id and f.resolved_at is null
        and (f.retry_requested_at is not null or f.next_retry_at <= now())) is true
    for update skip locked;
    if not found then
      held := held || waiting.subscription_id;
      continue;
    end if;

    bytes := bytes + octet_length(failure.payload::text);
    exit when claimed > 0 and (waiting.is_left or bytes > 4 * 1024 * 1024);
    update billing.failed_events f set retry_lease_id = p_lease_id
    where f.provider = failure.provider and f.event_id = failure.event_id;
    provider := failure.provider;
    event_id := failure.event_id;
    type := failure.type;
    body := case failure.payload_encoding when 'json' then failure.payload::text else failure.payload #>> '{}' end;
    body_encoding := failure.payload_encoding;
    return next;
    claimed := claimed + 1;
    exit when waiting.is_left or claimed = p_limit;
  end loop;
end;
$$;

-- Stores the outcomes of a run's retries; returns how many rows have theirs now. results: provider, event_id, outcome
-- (applied, duplicate, stale, ignored, failed or untried), error_code and error if it failed, and the columns that only
-- the receiver can read from a payload, since it may have been repaired. What was resolved meanwhile stays resolved. A
-- failure ends the request, if there was one, and then leaves the schedule as it is; else it uses up a retry of it. A
-- requested retry that found the record locked stays requested, and keeps its claim, so only the next run tries it
-- again. One that the run had no time for (untried) only ends its claim.
--
-- The id in a repaired payload may differ from that of its row, such as the hash of the body. That gets into the ledger
-- too, so that the old body, delivered again, does not reopen an applied event. Deliveries wait for these rows of the
-- ledger, so this hardly waits for a locked row: the next run tries it.
create or replace function public.billing_settle_failed_events(p_lease_id uuid, results jsonb)
returns integer language plpgsql volatile set search_path = ''
set lock_timeout = '20ms'
set jit = off
set enable_seqscan = off -- as in the claim
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  r record; -- the row, with what is said of it
  settled integer := 0;
begin
  for r in
    select n.*, said ->> 'outcome' as outcome, said ->> 'error_code' as fault
    from jsonb_array_elements(jsonb_strip_nulls(results)) as said
    join billing.failed_events f on f.provider = said ->> 'provider' and f.event_id = said ->> 'event_id'
    cross join jsonb_populate_record(f, said) as n
    -- What was applied is resolved already.
    where (f.retry_lease_id = p_lease_id or f.resolution in ('applied', 'duplicate', 'stale'))
      and (said ->> 'error_code' = 'record_locked' and f.retry_requested_at is not null) is not true
    order by f.provider, f.event_id
  loop
    begin
      if r.outcome = 'untried' then
        update billing.failed_events f set retry_lease_id = null
        where f.provider = r.provider and f.event_id = r.event_id and f.retry_lease_id = p_lease_id;
        continue;
      elsif r.outcome in ('applied', 'duplicate', 'stale') then
        insert into billing.processed_events (provider, event_id, type, outcome)
        values (r.provider, r.event_id, coalesce(r.type, ''), replace(r.outcome, 'duplicate', 'applied'))
        on conflict do nothing;
      end if;
      update billing.failed_events f set
        (type, kind, subscription_id, customer_id, account_id, occurred_at, error_code, error)
          = row (r.type, r.kind, r.subscription_id, r.customer_id, r.account_id, r.occurred_at, r.error_code, r.error),
        resolved_at = case when r.outcome <> 'failed' then coalesce(f.resolved_at, now()) end,
        resolution = case when r.outcome <> 'failed' then coalesce(f.resolution, r.outcome) end,
        attempts = f.attempts + (r.outcome = 'failed')::integer,
        last_failed_at = case r.outcome when 'failed' then now() else f.last_failed_at end,
        next_retry_at = case
          when f.retry_requested_at is null then
            billing.next_retry(r.fault, f.original_payload is not null, f.scheduled_retries + 1)
          when billing.next_retry(r.fault, f.original_payload is not null, 0) is not null then
            coalesce(f.next_retry_at, billing.next_retry(r.fault, false, f.scheduled_retries))
        end,
        scheduled_retries = f.scheduled_retries + (r.outcome = 'failed' and f.retry_requested_at is null)::integer,
        retry_lease_id = null, retry_requested_at = case
          when billing.is_cured(f.provider, r.fault, r.subscription_id, r.customer_id) then now()
        end
      where f.provider = r.provider and f.event_id = r.event_id
        and (f.resolved_at is null and f.retry_lease_id = p_lease_id or f.resolution = r.outcome);
      settled := settled + found::integer;
    exception when lock_not_available then
      null; -- Somebody has locked it.
    end;
  end loop;
  return settled;
end;
$$;
