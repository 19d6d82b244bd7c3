-- Retries one event, or all open failures. Keep only the line that you need.
select billing.retry_failed_event('<event id>');

select billing.retry_failed_events();
select billing.retry_failed_events(of_type => 'customer.subscription.updated');
select billing.retry_failed_events(of_error_code => 'subscription_unknown');
select billing.retry_failed_events(failed_since => now() - interval '1 day');

-- The results. If is_claimed stays true for more than a few seconds, another
-- session has most likely locked the record: docs/operate.md, "Locks".
select event_id, error_code, error, attempts, resolved_at, resolution,
  retry_requested_at, retry_lease_id is not null as is_claimed
from billing.failed_events
order by greatest(last_failed_at, resolved_at, retry_requested_at) desc
limit 50;
