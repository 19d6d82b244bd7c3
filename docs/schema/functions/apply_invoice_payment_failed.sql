-- Written by "deno task types". Defined in:
-- supabase/migrations/20261122000009_billing_0036_apply_invoice_payment_failed.sql

CREATE OR REPLACE FUNCTION public.apply_invoice_payment_failed(p_provider text, p_event_id text, p_subscription_id text, p_invoice_id text, p_hosted_invoice_url text DEFAULT NULL::text, p_amount_due bigint DEFAULT NULL::bigint, p_currency text DEFAULT NULL::text, p_attempt_count integer DEFAULT NULL::integer, p_next_payment_attempt timestamp with time zone DEFAULT NULL::timestamp with time zone, p_once_per_invoice boolean DEFAULT false)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  subscription public.subscriptions;
begin
  subscription := public.find_subscription(p_provider, p_subscription_id);

  if p_once_per_invoice and exists (
    select from public.notifications n
    where n.provider = p_provider and n.invoice_id = p_invoice_id
  ) then
    return 'applied';
  end if;

  insert into public.notifications (
    provider, event_id, account_id, subscription_id, invoice_id,
    hosted_invoice_url, amount_due, currency, attempt_count, next_payment_attempt
  )
  values (
    p_provider, p_event_id, subscription.account_id, p_subscription_id, p_invoice_id,
    p_hosted_invoice_url, p_amount_due, p_currency, p_attempt_count, p_next_payment_attempt
  )
  -- The row may outlive the event's row in the ledger, which is pruned by age.
  on conflict (provider, event_id) do nothing;
  return 'applied';
end;
$function$;

comment on function public.apply_invoice_payment_failed(text,text,text,text,text,bigint,text,integer,timestamp with time zone,boolean) is 'Applies invoice.payment_failed: inserts a row into notifications, unless p_once_per_invoice and the invoice has one; returns applied. Called by apply_billing_events, which holds the claim and the lock.';

revoke all on function public.apply_invoice_payment_failed(text,text,text,text,text,bigint,text,integer,timestamp with time zone,boolean) from public;

grant EXECUTE on function public.apply_invoice_payment_failed(text,text,text,text,text,bigint,text,integer,timestamp with time zone,boolean) to service_role;
