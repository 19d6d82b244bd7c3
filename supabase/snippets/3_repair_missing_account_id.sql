-- Repairs a creation without metadata.accountId: adds the account id, then retries
-- all open failures, including those that this one caused. The received payload
-- stays in original_payload. Replace both placeholders.
update billing.failed_events
set payload = jsonb_set(
  payload,
  '{data,object,metadata}',
  coalesce(nullif(payload #> '{data,object,metadata}', 'null'), '{}') || '{"accountId": "<account id>"}'
)
where event_id = '<event id>' and resolved_at is null
returning event_id, subscription_id, payload #>> '{data,object,metadata,accountId}' as account_id;

select billing.retry_failed_events();
