-- What is owed to accounts and has not arrived, oldest first.
select id, account_id, subscription_id, status, attempts, last_error, next_attempt_at, created_at
from public.notifications
where status <> 'sent'
order by created_at;
