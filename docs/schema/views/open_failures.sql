-- Written by "deno task types". Defined in:
-- supabase/migrations/20261121000017_billing_0017_open_failures.sql

create view public.open_failures with (security_invoker=true) as
 SELECT count(*) OVER (PARTITION BY error_code) AS alike,
    error_code,
    type,
    event_id,
    provider,
    subscription_id,
    account_id,
    error,
    attempts,
    first_failed_at,
    last_failed_at,
    (retry_requested_at IS NOT NULL) AS retry_requested,
    (original_payload IS NOT NULL) AS repaired
   FROM public.failed_events f
  WHERE (resolved_at IS NULL)
  ORDER BY (count(*) OVER (PARTITION BY error_code)) DESC, error_code, first_failed_at;

comment on view public.open_failures is 'Open failures, the most frequent error first. alike: the number of open failures with the same error_code.';

grant SELECT on table public.open_failures to service_role;
