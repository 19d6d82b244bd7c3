/*
 * Hands requested retries to one worker, in the order in which the events
 * occurred; of one second, creations first. Claims go one after the other, and
 * what another worker has of a subscription keeps the rest of it back: else an
 * update could be tried before the creation that it waits for.
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
    select d.provider, d.event_id
    from public.failed_events d
    where d.retry_requested_at is not null
      and d.resolved_at is null
      and (d.retry_leased_until is null or d.retry_leased_until <= now())
      and (
        d.subscription_id is null
        -- `not in`, not `not exists`: one look-up each, however many are held.
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
  claimed as (
    update public.failed_events f set
      retry_lease_id = gen_random_uuid(),
      retry_leased_until = now() + make_interval(secs => p_lease_seconds)
    from due
    where f.provider = due.provider and f.event_id = due.event_id
    returning f.*
  )
  select
    c.provider,
    c.event_id,
    c.retry_lease_id,
    case when c.payload_encoding = 'json' then c.payload::text else c.payload #>> '{}' end,
    case when c.payload_encoding = 'base64' then 'base64' else 'text' end
  from claimed c
  order by
    c.event_created nulls last,
    c.type is distinct from 'customer.subscription.created',
    c.first_failed_at,
    c.event_id;
end;
$$;

revoke all on function public.claim_failed_events(integer, integer)
  from public, anon, authenticated, service_role;
grant execute on function public.claim_failed_events(integer, integer) to service_role;

comment on function public.claim_failed_events(integer, integer) is
  'Leases up to p_limit requested retries to the caller for p_lease_seconds, in order of occurrence. body_encoding: text or base64.';

/*
 * Takes the outcomes of retries. What the ledger has settled meanwhile stays
 * settled. A failure counts as an attempt and ends the request.
 *
 * A repaired payload may have another id than the one that the event is filed
 * under, such as the hash of its body. That takes its place in the ledger too,
 * so that the old body, delivered again, opens nothing that was applied.
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
  -- First, as everywhere: ledger, then failed_events.
  insert into public.processed_events (provider, event_id, type)
  select f.provider, f.event_id, coalesce(f.type, '')
  from jsonb_to_recordset(results) as r (provider text, event_id text, outcome text)
  join public.failed_events f on f.provider = r.provider and f.event_id = r.event_id
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
    and f.retry_lease_id = r.lease_id and f.resolved_at is null;
  get diagnostics settled = row_count;
  return settled;
end;
$$;

revoke all on function public.settle_failed_events(jsonb)
  from public, anon, authenticated, service_role;
grant execute on function public.settle_failed_events(jsonb) to service_role;

comment on function public.settle_failed_events(jsonb) is
  'Settles retries: provider, event_id, lease_id, outcome (applied, duplicate, stale, ignored or failed), error_code, error. Answers how many were still open and the caller''s.';
