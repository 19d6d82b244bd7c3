/*
 * Hands requested retries to one worker, in the order in which the events
 * occurred; within the same second, creations first. Claims run one after the
 * other. While a worker has events of a subscription, no other worker gets
 * events of it: otherwise an update could be tried before its creation.
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
begin
  perform pg_advisory_xact_lock(hashtextextended('public.claim_failed_events', 0));
  return query
  with held as (
    select h.subscription_id
    from public.failed_events h
    where h.retry_requested_at is not null
      and h.resolved_at is null
      and h.retry_leased_until > now()
      and h.subscription_id is not null
  ),
  due as (
    select d.provider, d.event_id, d.payload, d.event_created, d.type, d.first_failed_at
    from public.failed_events d
    where d.retry_requested_at is not null
      and d.resolved_at is null
      and (d.retry_leased_until is null or d.retry_leased_until <= now())
      and (
        d.subscription_id is null
        -- `not in` instead of `not exists`: one hash lookup per row.
        or d.subscription_id not in (select h.subscription_id from held h)
      )
    order by
      d.event_created nulls last,
      d.type is distinct from 'customer.subscription.created',
      d.first_failed_at,
      d.event_id
    limit p_limit
    for update skip locked
  ),
  measured as (
    select
      d.provider,
      d.event_id,
      octet_length(d.payload::text) as bytes,
      row_number() over (
        order by
          d.event_created nulls last,
          d.type is distinct from 'customer.subscription.created',
          d.first_failed_at,
          d.event_id
      ) as position
    from due d
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
 * Deliveries wait for these rows of the ledger, so this does not wait for a row
 * of failed_events: a locked one keeps its lease, and is retried after it.
 */
create function public.settle_failed_events(results jsonb)
returns integer
language plpgsql
volatile
set search_path = ''
as $$
declare
  settled integer;
begin
  -- The same order of locks as everywhere: ledger, then failed_events.
  insert into public.processed_events (provider, event_id, type)
  select f.provider, f.event_id, coalesce(f.type, '')
  from jsonb_to_recordset(results) as r (
    provider text, event_id text, lease_id uuid, outcome text
  )
  join public.failed_events f
    on f.provider = r.provider and f.event_id = r.event_id and f.retry_lease_id = r.lease_id
  where r.outcome in ('applied', 'duplicate', 'stale')
  order by f.provider, f.event_id
  on conflict do nothing;

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
  from jsonb_to_recordset(results) as r (
    provider text,
    event_id text,
    lease_id uuid,
    outcome text,
    error_code text,
    error text
  )
  where f.provider = r.provider and f.event_id = r.event_id
    and f.ctid = any (array(
      select o.ctid
      from jsonb_to_recordset(results) as c (provider text, event_id text, lease_id uuid)
      join public.failed_events o
        on o.provider = c.provider and o.event_id = c.event_id and o.retry_lease_id = c.lease_id
      where o.resolved_at is null
      for update of o skip locked
    ));
  get diagnostics settled = row_count;
  return settled;
end;
$$;

revoke all on function public.settle_failed_events(jsonb)
  from public, anon, authenticated, service_role;
grant execute on function public.settle_failed_events(jsonb) to service_role;

comment on function public.settle_failed_events(jsonb) is
  'Stores the outcomes of retries. results: provider, event_id, lease_id, outcome (applied, duplicate, stale, ignored or failed), error_code, error. Returns how many rows were still open and leased to the caller.';
