-- Events that never came. About once an hour, the worker (sweep.ts) lists a provider's events, and
-- applies those that no delivery has brought.

create table billing.installation (
  installed_at timestamptz not null default now(),
  -- billing.prune has deleted what was known of events from before.
  pruned_until timestamptz
);

insert into billing.installation default values;

comment on table billing.installation is
  'One row. No sweep applies an event from before either time.';

create table billing.sweeps (
  provider text collate "C" primary key,
  -- How far the events of the types that always take effect were compared.
  swept_until timestamptz,
  -- The same of each further type.
  types jsonb not null default '{}',
  -- Where the next list begins, if the provider lists by a cursor of its own.
  position text collate "C",
  -- Whether the next sweep goes on just there, because the last has not come to its end.
  goes_on boolean not null default false,

  last_run_at timestamptz,
  last_success_at timestamptz,
  last_error text,
  -- From the last run to the next.
  rests interval not null default '0',
  -- How many events of the last 90 days were applied, stale or stored as failures.
  found bigint not null default 0,

  -- When the worker first and last said that it has a key.
  wanted_since timestamptz not null default now(),
  wanted_at timestamptz not null default now()
);

comment on table billing.sweeps is
  'How far the worker has looked for events that never came. To begin anew, delete the row.';

create table billing.missed_events (
  provider text collate "C" not null,
  found_at timestamptz not null default now(),
  type text not null,
  events integer not null,
  is_reported boolean not null default false,
  primary key (found_at, provider, type)
);

comment on table billing.missed_events is
  'What sweeps have found, by type; is_reported: an alert has told the operator.';

-- Called by each scheduled run, with the providers that have a key. If a sweep is due, wakes the
-- worker for it, so that it has processor time of its own. Returns true if nothing can wake it: the
-- run then sweeps itself.
create function public.billing_request_sweep(providers text[])
returns boolean
language plpgsql volatile
set search_path = ''
as $$
begin
  insert into billing.sweeps as s (provider)
  select p from unnest(providers) as p
  on conflict (provider) do update set
    wanted_since = case
      when s.wanted_at < now() - interval '1 hour' then now()
      else s.wanted_since
    end,
    wanted_at = now();

  return exists (
    select
    from billing.sweeps s
    where s.provider = any (providers) and (s.last_run_at + s.rests <= now()) is not false
  ) and not billing.wake_worker('sweep');
end;
$$;

-- Begins a sweep. Returns no row if another run has the queue, or the provider has asked for a
-- pause.
create function public.billing_claim_sweep(
  lease_id uuid,
  provider text,
  destination text
)
returns table (
  swept_until timestamptz,
  types jsonb,
  "position" text,
  goes_on boolean,
  not_before timestamptz
)
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
begin
  if not billing.hold_lease('sweep', lease_id, destination) then
    return;
  end if;

  return query
  insert into billing.sweeps as s (provider, last_run_at, rests)
  values (billing_claim_sweep.provider, now(), '5 min')
  on conflict (provider) do update set
    last_run_at = excluded.last_run_at,
    -- Unless it is settled: the worker was killed.
    rests = excluded.rests,
    wanted_at = now()
  returning
    s.swept_until,
    s.types,
    s.position,
    s.goes_on,
    (select greatest(i.installed_at, i.pruned_until) from billing.installation i);
end;
$$;

-- Returns those events that are unknown, in the same order. An ID is known if either provider has
-- it: both may be the same account.
create function public.billing_missing_events(event_ids text[])
returns text[]
language sql stable
set search_path = ''
as $$
  select array(
    select e.id
    from unnest(event_ids) with ordinality as e (id, place)
    where not exists (
        select
        from billing.processed_events p
        where p.provider in ('a', 'b') and p.event_id = e.id
      )
      and not exists (
        select
        from billing.failed_events f
        where f.provider in ('a', 'b') and f.event_id = e.id
      )
    order by e.place
  )
$$;

-- Counts what a sweep has found ("A sweep applies what it finds" in docs/decisions.md).
create function billing.count_missed(provider text, types text[])
returns void
language sql volatile
set search_path = ''
begin atomic
  insert into billing.missed_events as m (provider, type, events)
  select count_missed.provider, t.type, count(*)
  from unnest(types) as t (type)
  group by t.type
  -- Each half of a call has the same time.
  on conflict (found_at, provider, type) do update set events = m.events + excluded.events;
end;

-- Stores how far a sweep has come, or why it failed. Returns whether the run still has the queue.
create function public.billing_settle_sweep(
  lease_id uuid,
  provider text,
  destination text,
  result jsonb
)
returns boolean
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
begin
  update billing.sweeps s set
    swept_until = coalesce(r.swept_until, s.swept_until),
    types = s.types || r.types,
    position = r.position,
    goes_on = r.goes_on,
    last_success_at = case when r.has_failed then s.last_success_at else now() end,
    last_error = r.error,
    rests = r.rests_seconds * interval '1 s',
    found = (
      select coalesce(sum(m.events), 0)
      from billing.missed_events m
      where m.provider = billing_settle_sweep.provider
    )
  from jsonb_to_record(result) as r (
    swept_until timestamptz,
    types jsonb,
    position text,
    goes_on boolean,
    error text,
    has_failed boolean,
    rests_seconds integer
  )
  where s.provider = billing_settle_sweep.provider;

  insert into billing.pauses as p (destination, paused_until)
  select
    billing_settle_sweep.destination,
    clock_timestamp() + (result -> 'pause_seconds')::integer * interval '1 s'
  where result ? 'pause_seconds'
  on conflict (destination) do update set paused_until = excluded.paused_until;

  return billing.hold_lease('sweep', lease_id);
end;
$$;
