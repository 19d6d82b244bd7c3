-- Repairs an event that names no account: adds the account ID, then retries all open
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
