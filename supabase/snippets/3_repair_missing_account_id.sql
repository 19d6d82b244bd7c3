-- A creation without metadata.accountId: put the account id in, then retry it
-- and everything that failed because of it. What was received stays in
-- original_payload. Replace both placeholders.
update public.failed_events
set payload = jsonb_set(
  payload,
  '{data,object,metadata}',
  coalesce(nullif(payload #> '{data,object,metadata}', 'null'), '{}') || '{"accountId": "<account id>"}'
)
where event_id = '<event id>' and resolved_at is null
returning event_id, subscription_id, account_id;

select public.retry_failed_events();
