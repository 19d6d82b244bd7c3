/*
 * The first thing to look at: all open failures, the most frequent error first.
 */
create view public.open_failures
with (security_invoker = true)
as
select
  count(*) over (partition by f.error_code) as alike,
  f.error_code,
  f.type,
  f.event_id,
  f.provider,
  f.subscription_id,
  f.account_id,
  f.error,
  f.attempts,
  f.first_failed_at,
  f.last_failed_at,
  f.retry_requested_at is not null as retry_requested,
  f.original_payload is not null as repaired
from public.failed_events f
where f.resolved_at is null
order by alike desc, f.error_code, f.first_failed_at;

revoke all on table public.open_failures from public, anon, authenticated, service_role;
grant select on table public.open_failures to service_role;

comment on view public.open_failures is
  'Open failures, the most frequent error first. alike: the number of open failures with the same error_code.';
