-- Notifications and alerts that were not delivered, oldest first.
select id, kind, account_id, subscription_id, status, attempts, last_error, next_attempt_at, created_at
from public.notifications
where status not in ('sent', 'withdrawn')
order by created_at;
