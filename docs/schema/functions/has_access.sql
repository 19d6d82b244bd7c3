-- Written by "deno task types". Defined in:
-- supabase/migrations/20261122000008_billing_0035_has_access.sql

CREATE OR REPLACE FUNCTION public.has_access(account_id text, grace interval DEFAULT '00:00:00'::interval)
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO ''
AS $function$
  select exists (
    select from public.subscriptions s
    where s.account_id = has_access.account_id
      and s.status <> 'canceled'
      and s.paused is distinct from 'void'
      and (s.cancel_at is null or s.cancel_at > now())
      and case coalesce(s.provider_status, s.status)
        when 'active' then true
        when 'trialing' then true
        when 'past_due' then
          has_access.grace > '0' and now() < has_access.grace + coalesce(
            s.past_due_since, least(s.current_period_end, s.changed_as_of)
          )
        else false
      end
  )
$function$;

comment on function public.has_access(text,interval) is 'Returns whether the account has a subscription that is active or on trial, or past_due for less than the grace. It looks at the rows that the caller may read.';

revoke all on function public.has_access(text,interval) from public;

grant EXECUTE on function public.has_access(text,interval) to service_role;
