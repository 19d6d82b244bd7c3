-- Retries one event, or all open failures. Keep only the line that you need.
select public.retry_failed_event('<event id>');

select public.retry_failed_events();
select public.retry_failed_events(of_type => 'customer.subscription.updated');
select public.retry_failed_events(of_error_code => 'subscription_unknown');
select public.retry_failed_events(failed_since => now() - interval '1 day');

-- The results. With a time in tried_again_after and none in resolved_at, another
-- session has most likely locked the record: docs/runbook.md, "Locks".
select event_id, error_code, error, attempts, resolved_at, resolution,
  retry_requested_at, retry_leased_until as tried_again_after
from public.failed_events
order by greatest(last_failed_at, resolved_at, retry_requested_at) desc
limit 50;
