/*
 * Hands requested retries to one worker, in the order in which the events
 * occurred; within the same second, creations first. Claims run one after the
 * other. While a worker has events of a subscription, or another session has one
 * locked, no worker gets others of it: otherwise an update could be tried before
 * its creation.
 *
 * A worker has 256 MB of memory, so a batch is limited in bytes of JSON text, in
 * which a control character counts six. A payload that is larger than a batch is
 * claimed alone. A payload that no worker can hold fails here; otherwise it would
 * be first in every claim and block the others.
 */
create function public.claim_failed_events(p_limit integer, p_lease_seconds integer)
returns table (
  provider text,
  event_id text,
  lease_id uuid,
  body text,
  body_encoding text
)
language plpgsql
volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  batch_bytes constant integer := 4 * 1024 * 1024;
  worker_bytes constant integer := 16 * 1024 * 1024;
  due_providers text[];
  due_ids text[];
  to_take integer := p_limit;
  held_back text[] := '{}';
  locked text[];
begin
  perform pg_advisory_xact_lock(hashtextextended('public.claim_failed_events', 0));
  -- A row is known to be locked only once it was passed over. So if something that
  -- occurred after it was taken, its subscription is left out, and others are taken.
  loop
    with held as (
      select h.subscription_id
      from public.failed_events h
      where h.retry_requested_at is not null
        and h.resolved_at is null
        and h.retry_leased_until > now()
        and h.subscription_id is not null
      union all
      select unnest(held_back)
    ),
    due as materialized (
      select
        d.provider,
        d.event_id,
        d.subscription_id,
        row(
          coalesce(d.event_created, 'infinity'),
          d.type is distinct from 'customer.subscription.created',
          d.first_failed_at,
          d.event_id
        ) as occurrence
      from public.failed_events d
      where d.retry_requested_at is not null
        and d.resolved_at is null
        and (d.retry_leased_until is null or d.retry_leased_until <= now())
        and (
          d.subscription_id is null
          -- `not in`, not `not exists`: one look-up each, however many are held.
          or d.subscription_id not in (select h.subscription_id from held h)
        )
      -- As occurrence says, and faster.
      order by
        d.event_created nulls last,
        d.type is distinct from 'customer.subscription.created',
        d.first_failed_at,
        d.event_id
      limit to_take
      for update skip locked
    )
    select
      array_agg(d.provider order by d.occurrence),
      array_agg(d.event_id order by d.occurrence),
      array(
        select distinct e.subscription_id
        from due l
        join public.failed_events e on e.subscription_id = l.subscription_id
        where e.retry_requested_at is not null
          and e.resolved_at is null
          and row(
            coalesce(e.event_created, 'infinity'),
            e.type is distinct from 'customer.subscription.created',
            e.first_failed_at,
            e.event_id
          ) < l.occurrence
          and not exists (
            select from due o where o.provider = e.provider and o.event_id = e.event_id
          )
      )
    into due_providers, due_ids, locked
    from due d;
    exit when locked = '{}';
    held_back := held_back || locked;
    -- However many are locked, the loop is short.
    to_take := to_take * 2;
  end loop;

  return query
  with measured as (
    select
      d.provider,
      d.event_id,
      octet_length(d.payload::text) as bytes,
      k.position
    from unnest(due_providers, due_ids) with ordinality as k (provider, event_id, position)
    join public.failed_events d using (provider, event_id)
    where k.position <= p_limit
  ),
  too_large as (
    update public.failed_events f set
      retry_requested_at = null,
      attempts = f.attempts + 1,
      last_failed_at = now(),
      error_code = 'body_too_large',
      error = format(
        'The payload has %s bytes as JSON text, more than the worker can retry (%s).', m.bytes, worker_bytes
      )
    from measured m
    where f.provider = m.provider and f.event_id = m.event_id and m.bytes > worker_bytes
  ),
  batch as (
    select m.*, sum(m.bytes) over (order by m.position) as bytes_so_far
    from measured m
    where m.bytes <= worker_bytes
  ),
  claimed as (
    update public.failed_events f set
      retry_lease_id = gen_random_uuid(),
      retry_leased_until = now() + make_interval(secs => p_lease_seconds)
    from batch b
    where f.provider = b.provider and f.event_id = b.event_id
      and (b.bytes_so_far <= batch_bytes or b.bytes_so_far = b.bytes)
    returning f.*, b.position
  )
  select
    c.provider,
    c.event_id,
    c.retry_lease_id,
    case when c.payload_encoding = 'json' then c.payload::text else c.payload #>> '{}' end,
    case when c.payload_encoding = 'base64' then 'base64' else 'text' end
  from claimed c
  order by c.position;
end;
$$;

revoke all on function public.claim_failed_events(integer, integer)
  from public, anon, authenticated, service_role;
grant execute on function public.claim_failed_events(integer, integer) to service_role;

comment on function public.claim_failed_events(integer, integer) is
  'Leases up to p_limit requested retries to the caller for p_lease_seconds, in the order in which the events occurred, and at most 4 MiB unless a single one is larger. body_encoding: text or base64. A payload of more than 16 MiB of JSON text fails with body_too_large.';

/*
 * Stores the outcomes of retries. A row that was resolved meanwhile stays
 * resolved. A failure counts as an attempt and ends the request.
 *
 * The id in a repaired payload may differ from that of its row, which may be the
 * hash of the body. The row's id gets a row in the ledger too, so that the old
 * body, delivered again, does not reopen an applied event.
 *
 * Deliveries wait for these rows of the ledger, so this waits for no row of
 * failed_events, and for rows of the ledger no longer than a delivery does. If
 * one is locked, its retry keeps its lease, and is retried after it.
 */
create function public.settle_failed_events(results jsonb)
returns integer
language plpgsql
volatile
set search_path = ''
as $$
declare
  locked jsonb;
  settled integer;
begin
  -- First, as everywhere: ledger, then failed_events.
  select c.failures into locked
  from public.claim_billing_events((
    select jsonb_agg(jsonb_build_object(
      'provider', f.provider, 'event_id', f.event_id, 'type', coalesce(f.type, '')
    ))
    from jsonb_to_recordset(results) as r (
      provider text, event_id text, lease_id uuid, outcome text
    )
    join public.failed_events f on f.provider = r.provider and f.event_id = r.event_id
    where r.outcome in ('applied', 'duplicate', 'stale')
      -- What was applied is resolved already, which has ended its lease.
      and (f.retry_lease_id = r.lease_id or f.resolution in ('applied', 'duplicate', 'stale'))
  )) as c;

  with unlocked as materialized (
    select r.*
    from jsonb_to_recordset(results) as r (
      provider text,
      event_id text,
      lease_id uuid,
      outcome text,
      error_code text,
      error text
    )
    join public.failed_events o
      on o.provider = r.provider and o.event_id = r.event_id and o.retry_lease_id = r.lease_id
    where o.resolved_at is null
      and not locked ? (r.provider || '/' || r.event_id)
    for update of o skip locked
  )
  update public.failed_events f set
    resolved_at = case when r.outcome <> 'failed' then now() end,
    resolution = case when r.outcome <> 'failed' then r.outcome end,
    error_code = case when r.outcome = 'failed' then r.error_code else f.error_code end,
    error = case when r.outcome = 'failed' then r.error else f.error end,
    attempts = f.attempts + case when r.outcome = 'failed' then 1 else 0 end,
    last_failed_at = case when r.outcome = 'failed' then now() else f.last_failed_at end,
    retry_requested_at = null,
    retry_leased_until = null,
    retry_lease_id = null
  from unlocked r
  where f.provider = r.provider and f.event_id = r.event_id;
  get diagnostics settled = row_count;
  return settled;
end;
$$;

revoke all on function public.settle_failed_events(jsonb)
  from public, anon, authenticated, service_role;
grant execute on function public.settle_failed_events(jsonb) to service_role;

comment on function public.settle_failed_events(jsonb) is
  'Stores the outcomes of retries. results: provider, event_id, lease_id, outcome (applied, duplicate, stale, ignored or failed), error_code, error. Returns how many rows were still open and leased to the caller.';
