-- Written by "deno task types". Defined in:
-- supabase/migrations/20261122000007_billing_0034_forget_marks_ahead.sql

CREATE OR REPLACE FUNCTION public.forget_marks_ahead(p_provider text, p_subscription_id text)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
declare
  latest constant timestamptz := now() + interval '5 minutes';
begin
  update public.subscriptions s set
    account_as_of = case when s.account_as_of <= latest then s.account_as_of end,
    changed_as_of = case when s.changed_as_of <= latest then s.changed_as_of end,
    canceled_as_of = case when s.canceled_as_of <= latest then s.canceled_as_of end,
    past_due_since = case when s.past_due_since > latest then now() else s.past_due_since end
  where s.id = p_subscription_id
    and s.provider = p_provider
    and greatest(s.account_as_of, s.changed_as_of, s.canceled_as_of, s.past_due_since) > latest;
  return found;
end;
$function$;

comment on function public.forget_marks_ahead(text,text) is 'Removes the ordering marks of a record that are more than five minutes ahead of the clock, so that corrections and events take effect again, and sets such a past_due_since to now. Returns whether there were any. Called by import and reconcile.';

revoke all on function public.forget_marks_ahead(text,text) from public;

grant EXECUTE on function public.forget_marks_ahead(text,text) to service_role;
