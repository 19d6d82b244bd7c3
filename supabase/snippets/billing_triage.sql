-- Triage of failed events. Select one statement, and run it: the SQL editor runs what is
-- selected. docs/operate.md in the receiver's repository says more.

-- 1. What is failing: health, then all open failures, the most frequent error first.
select * from billing.health;

select * from billing.open_failures;

-- 2. Why it is failing: open failures by error, with an example of each.
select
  error_code,
  type,
  error,
  count(*) as events,
  min(first_failed_at) as since,
  max(last_failed_at) as last,
  min(event_id) as for_example
from billing.failed_events
where resolved_at is null
group by error_code, type, error
order by events desc;

-- 3. Repairs an event that names no account: adds the account ID, then retries all open
-- failures, including those that waited for it. The received payload stays in
-- original_payload. Replace both placeholders; and for another format than Stripe's, the
-- place, which the error names:
--   paddle          '{data,custom_data}', 'accountId'
--   polar, dodo     '{data,metadata}', 'accountId'
--   lemon-squeezy   '{meta,custom_data}', 'account_id'
update billing.failed_events
set payload = jsonb_set(payload, place, coalesce(nullif(payload #> place, 'null'), '{}')
  || jsonb_build_object(name, '<account id>'))
from (values ('{data,object,metadata}'::text[], 'accountId')) as account (place, name)
where event_id = '<event id>' and resolved_at is null
returning event_id, subscription_id, payload #> place as metadata;

select billing.retry_failed_events();

-- 4. Retries one event, or all open failures.
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

-- 5. Notifications that were not delivered, oldest first.
select id, account_id, subscription_id, status, attempts, last_error, next_attempt_at, created_at
from billing.notifications
where status <> 'sent'
order by created_at;

-- 6. Resolves a failure without applying the event. It reopens if the event fails
-- again.
select billing.resolve_failed_event('<event id>', '<reason>', '<your name>');

-- If that was a mistake.
select billing.reopen_failed_event('<event id>');
