-- Notifications that were not delivered, oldest first.
select id, account_id, subscription_id, status, attempts, last_error, next_attempt_at, created_at
from billing.notifications
where status <> 'sent'
order by created_at;
