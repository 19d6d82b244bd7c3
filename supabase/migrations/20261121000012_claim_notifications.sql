/*
 * When a notification that could not be delivered is tried again: the schedule
 * of the Standard Webhooks specification. The first attempt is at once, so
 * there is one attempt more than there are waits.
 */
create function public.notification_waits()
returns interval[]
language sql
immutable
set search_path = ''
as $$
  select '{5 s,5 min,30 min,2 h,5 h,10 h,14 h,20 h,24 h}'::interval[];
$$;

revoke all on function public.notification_waits() from public, anon, authenticated, service_role;
grant execute on function public.notification_waits() to service_role;

comment on function public.notification_waits() is
  'The waits between the attempts at a notification; after the last attempt it is dead, about three days on.';

/*
 * Hands due notifications to one worker. A claimed row is leased: until the
 * lease ends no other worker gets it, and after that it is due again, because
 * its worker must have died. The attempt is counted here, before anything is
 * sent, so that a notification which kills its workers is given up in the end.
 *
 * Each claim has a new lease id. settle_notifications asks for it, so a worker
 * that comes back after its lease has ended settles nothing.
 */
create function public.claim_notifications(p_limit integer, p_lease_seconds integer)
returns table (
  id uuid,
  lease_id uuid,
  attempt integer,
  provider text,
  event_id text,
  account_id text,
  subscription_id text,
  invoice_id text,
  created_at timestamptz
)
language plpgsql
volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  max_attempts constant integer := cardinality(public.notification_waits()) + 1;
begin
  update public.notifications n set
    status = 'dead',
    last_error = coalesce(n.last_error || '; ', '') || 'the worker of the last attempt did not come back'
  from (
    select d.id
    from public.notifications d
    where d.status = 'pending' and d.next_attempt_at <= now() and d.attempts >= max_attempts
    for update skip locked
  ) as spent
  where n.id = spent.id;

  -- Not a subquery: a plan may run that once for every row of the table, and
  -- each run would lock as many rows as the limit allows. This runs once.
  return query
  with due as materialized (
    select d.id
    from public.notifications d
    where d.status = 'pending' and d.next_attempt_at <= now() and d.attempts < max_attempts
    order by d.next_attempt_at
    limit p_limit
    for update skip locked
  )
  update public.notifications n set
    attempts = n.attempts + 1,
    lease_id = gen_random_uuid(),
    next_attempt_at = now() + make_interval(secs => p_lease_seconds)
  from due
  where n.id = due.id
  returning
    n.id, n.lease_id, n.attempts, n.provider, n.event_id,
    n.account_id, n.subscription_id, n.invoice_id, n.created_at;
end;
$$;

revoke all on function public.claim_notifications(integer, integer)
  from public, anon, authenticated, service_role;
grant execute on function public.claim_notifications(integer, integer) to service_role;

comment on function public.claim_notifications(integer, integer) is
  'Leases up to p_limit due notifications to the caller for p_lease_seconds and counts the attempt.';
