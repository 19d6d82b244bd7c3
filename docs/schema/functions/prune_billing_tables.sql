-- Written by "deno task types". Defined in:
-- supabase/migrations/20261121000026_billing_0026_prune_billing_tables.sql

CREATE OR REPLACE FUNCTION public.prune_billing_tables(ledger_keeps interval DEFAULT '90 days'::interval, settled_rows_keep interval DEFAULT '90 days'::interval, payloads_keep interval DEFAULT '30 days'::interval, batch_size integer DEFAULT 20000)
 RETURNS TABLE(ledger_rows bigint, payloads bigint, failures bigint, notifications bigint)
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
begin
  -- By ctid, which cannot change while the row is locked. With a join by key, a
  -- plan may read the whole table, or select the batch again for every row.
  delete from public.processed_events t
  where t.ctid = any (array(
    select o.ctid
    from public.processed_events o
    where o.processed_at < now() - ledger_keeps
    order by o.processed_at
    limit batch_size
    for update skip locked
  ));
  get diagnostics ledger_rows = row_count;

  update public.failed_events t set payload = null, original_payload = null
  where t.ctid = any (array(
    select o.ctid
    from public.failed_events o
    where o.resolved_at < now() - payloads_keep
      and (o.payload is not null or o.original_payload is not null)
    order by o.resolved_at
    limit batch_size
    for update skip locked
  ));
  get diagnostics payloads = row_count;

  delete from public.failed_events t
  where t.ctid = any (array(
    select o.ctid
    from public.failed_events o
    where o.resolved_at < now() - settled_rows_keep
    order by o.resolved_at
    limit batch_size
    for update skip locked
  ));
  get diagnostics failures = row_count;

  delete from public.notifications t
  where t.ctid = any (array(
    select o.ctid
    from public.notifications o
    where o.status <> 'pending' and o.created_at < now() - settled_rows_keep
    order by o.created_at
    limit batch_size
    for update skip locked
  ));
  get diagnostics notifications = row_count;
  return next;
end;
$function$;

comment on function public.prune_billing_tables(interval,interval,interval,integer) is 'Deletes up to batch_size old rows of each table, and the payloads of resolved failures earlier than their rows. Returns how many of each.';

revoke all on function public.prune_billing_tables(interval,interval,interval,integer) from public;
