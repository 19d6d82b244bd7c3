-- Written by "deno task types". Defined in:
-- supabase/migrations/20261121000019_billing_0019_claim_failed_events.sql

CREATE OR REPLACE FUNCTION public.claim_failed_events(p_limit integer, p_lease_seconds integer)
 RETURNS TABLE(provider text, event_id text, lease_id uuid, body text, body_encoding text)
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
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
$function$;

comment on function public.claim_failed_events(integer,integer) is 'Leases up to p_limit requested retries to the caller for p_lease_seconds, in the order in which the events occurred, and at most 4 MiB unless a single one is larger. body_encoding: text or base64. A payload of more than 16 MiB of JSON text fails with body_too_large.';

revoke all on function public.claim_failed_events(integer,integer) from public;

grant EXECUTE on function public.claim_failed_events(integer,integer) to service_role;
