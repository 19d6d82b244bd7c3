-- Written by "deno task types". Defined in:
-- supabase/migrations/20261122000011_billing_0038_claim_notifications.sql

CREATE OR REPLACE FUNCTION public.claim_notifications(p_limit integer, p_lease_seconds integer, p_destination text, p_per_second numeric DEFAULT NULL::numeric, p_alerts boolean DEFAULT false)
 RETURNS TABLE(id uuid, lease_id uuid, attempt integer, provider text, event_id text, account_id text, subscription_id text, invoice_id text, created_at timestamp with time zone, hosted_invoice_url text, amount_due bigint, currency text, attempt_count integer, next_payment_attempt timestamp with time zone, kind text, alert jsonb, wait_ms integer)
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
#variable_conflict use_column
declare
  max_attempts constant integer := cardinality(public.notification_waits()) + 1;
  spacing constant interval := make_interval(secs => coalesce(1.1 / p_per_second, 0));
  first_slot timestamptz;
  claimed integer;
begin
  -- This locks the row, so claims for one receiver go one after the other. Before
  -- any notification, as settle_notifications does, or the two would deadlock.
  insert into public.notification_pace as p (destination, next_send_at)
  values (p_destination, clock_timestamp())
  on conflict (destination) do update
    set next_send_at = greatest(p.next_send_at, clock_timestamp())
  returning p.next_send_at into first_slot;
  update public.notifications n set
    status = 'dead',
    last_error = coalesce(n.last_error || '; ', '') || 'the worker of the last attempt did not report a result'
  from (
    select d.id
    from public.notifications d
    where d.status = 'pending' and (d.kind <> 'payment_failed') = p_alerts
      and d.next_attempt_at <= now() and d.attempts >= max_attempts
    for update skip locked
  ) as spent
  where n.id = spent.id;

  if first_slot > clock_timestamp() + interval '20 s' then
    return;
  end if;

  -- A CTE, because it runs once. A plan may run a subquery once per row of the
  -- table, and each run would lock as many rows as the limit allows.
  return query
  with due as materialized (
    select d.id, d.next_attempt_at
    from public.notifications d
    where d.status = 'pending' and (d.kind <> 'payment_failed') = p_alerts
      and d.next_attempt_at <= first_slot and d.attempts < max_attempts
      -- A lease counts until it has ended, not until the row would be sent.
      and (d.lease_id is null or d.next_attempt_at <= now())
    order by d.next_attempt_at
    limit p_limit
    for update skip locked
  ),
  slots as materialized (
    select d.id, first_slot + spacing * (row_number() over (order by d.next_attempt_at) - 1) as slot
    from due d
  )
  update public.notifications n set
    attempts = n.attempts + 1,
    lease_id = gen_random_uuid(),
    next_attempt_at = s.slot + make_interval(secs => p_lease_seconds)
  from slots s
  where n.id = s.id
  returning
    n.id, n.lease_id, n.attempts, n.provider, n.event_id,
    n.account_id, n.subscription_id, n.invoice_id, n.created_at,
    n.hosted_invoice_url, n.amount_due, n.currency, n.attempt_count, n.next_payment_attempt,
    n.kind, n.alert,
    greatest(ceil(extract(epoch from s.slot - clock_timestamp()) * 1000), 0)::integer;
  get diagnostics claimed = row_count;

  update public.notification_pace p set next_send_at = first_slot + spacing * claimed
  where p.destination = p_destination;
end;
$function$;

comment on function public.claim_notifications(integer,integer,text,numeric,boolean) is 'Leases up to p_limit due notifications to the caller: alerts to the operator with p_alerts, else those to accounts. The lease lasts p_lease_seconds, and the attempt is counted. wait_ms: how long to wait before sending.';

revoke all on function public.claim_notifications(integer,integer,text,numeric,boolean) from public;

grant EXECUTE on function public.claim_notifications(integer,integer,text,numeric,boolean) to service_role;
