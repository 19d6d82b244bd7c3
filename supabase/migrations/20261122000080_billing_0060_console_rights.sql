/*
 * The console (docs/console.md) acts on failures through the API, with the
 * project's secret key. It calls the functions that the SQL editor calls, so
 * service_role may execute them now. That adds little: service_role may update
 * failed_events anyway, and it may call the worker.
 */

/*
 * As before, and it returns false if the caller may not read Vault or use pg_net,
 * as service_role may not in every project. The caller then wakes the worker
 * itself, or the schedule does within a minute.
 */
create or replace function public.wake_billing_worker()
returns boolean
language plpgsql
volatile
set search_path = ''
as $$
declare
  worker_url text;
  worker_key text;
begin
  if to_regclass('vault.decrypted_secrets') is null or to_regproc('net.http_post') is null then
    return false;
  end if;
  execute $sql$
    select
      max(s.decrypted_secret) filter (where s.name = 'billing_worker_url'),
      max(s.decrypted_secret) filter (where s.name = 'billing_worker_key')
    from vault.decrypted_secrets s
  $sql$ into worker_url, worker_key;
  if worker_url is null or worker_key is null then
    return false;
  end if;
  execute $sql$
    select net.http_post(
      url := $1,
      body := '{}'::jsonb,
      headers := jsonb_build_object('content-type', 'application/json', 'apikey', $2),
      timeout_milliseconds := 5000
    )
  $sql$ using worker_url, worker_key;
  return true;
exception when insufficient_privilege then
  return false;
end;
$$;

/*
 * As before, with the six functions that service_role may execute now.
 */
create or replace function public.billing_rights()
returns table (kind text, name text, service_role_may text, app_may text)
language sql
immutable
set search_path = ''
as $$
  values
    ('table', 'failed_events', 'select, insert, update', null),
    ('table', 'failure_alerts', 'select, insert, update', null),
    ('table', 'notification_pace', 'select, insert, update', null),
    ('table', 'notifications', 'select, insert, update', null),
    ('table', 'processed_events', 'select, insert, update, delete', null),
    ('table', 'subscriptions', 'select, insert, update', 'select'),
    ('view', 'billing_events_per_hour', 'select', null),
    ('view', 'billing_health', 'select', null),
    ('view', 'open_failures', 'select', null),
    ('function', 'account_email', 'execute', null),
    ('function', 'account_of_customer', 'execute', null),
    ('function', 'apply_billing_events', 'execute', null),
    ('function', 'apply_invoice_payment_failed', 'execute', null),
    ('function', 'apply_subscription_created', 'execute', null),
    ('function', 'apply_subscription_deleted', 'execute', null),
    ('function', 'apply_subscription_updated', 'execute', null),
    ('function', 'billing_rights', 'execute', null),
    ('function', 'billing_version', 'execute', null),
    ('function', 'claim_billing_events', 'execute', null),
    ('function', 'claim_failed_events', 'execute', null),
    ('function', 'claim_notifications', 'execute', null),
    ('function', 'excess_billing_rights', 'execute', null),
    ('function', 'find_subscription', 'execute', null),
    ('function', 'forget_marks_ahead', 'execute', null),
    ('function', 'has_access', 'execute', 'execute'),
    ('function', 'has_long_number', 'execute', null),
    ('function', 'keep_original_payload', null, null),
    ('function', 'lock_failed_event', 'execute', null),
    ('function', 'merge_update', 'execute', null),
    ('function', 'notification_waits', 'execute', null),
    ('function', 'open_alerts', 'execute', null),
    ('function', 'provider_of_failed_event', 'execute', null),
    ('function', 'prune_billing_tables', null, null),
    ('function', 'record_failed_event', 'execute', null),
    ('function', 'resolve_failed_event', 'execute', null),
    ('function', 'retry_failed_event', 'execute', null),
    ('function', 'retry_failed_events', 'execute', null),
    ('function', 'retry_request_answer', 'execute', null),
    ('function', 'revoke_billing_rights', null, null),
    ('function', 'schedule_billing_worker', null, null),
    ('function', 'settle_failed_events', 'execute', null),
    ('function', 'settle_notifications', 'execute', null),
    ('function', 'unschedule_billing_worker', null, null),
    ('function', 'wake_billing_worker', 'execute', null)
$$;

create or replace function public.billing_version()
returns text
language sql
immutable
set search_path = ''
as $$
  select '0060'
$$;

comment on function public.retry_failed_event(text, text) is
  'Run in the SQL editor or by the console: requests a retry of an open failure. Raises an error if no failed event has this id, if both providers have one and of_provider is missing, or if the payload was pruned.';
comment on function public.retry_failed_events(text, text, timestamptz, timestamptz) is
  'Run in the SQL editor or by the console: requests a retry of all open failures, or of those with a type, an error code or a time of failure, in the order in which the events occurred.';
comment on function public.resolve_failed_event(text, text, text, text) is
  'Run in the SQL editor or by the console: resolves an open failure without applying the event; stores the reason and the name. Raises an error if both providers have a failed event with this id and of_provider is missing.';
comment on function public.wake_billing_worker() is
  'Wakes the worker without waiting for it. Returns false if schedule_billing_worker was not run, or if the caller may not use what it needs.';

select public.revoke_billing_rights();
