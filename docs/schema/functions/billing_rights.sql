-- Written by "deno task types". Defined in:
-- supabase/migrations/20261122000024_billing_0051_billing_rights.sql

CREATE OR REPLACE FUNCTION public.billing_rights()
 RETURNS TABLE(kind text, name text, service_role_may text, app_may text)
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO ''
AS $function$
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
    ('function', 'apply_updates_together', 'execute', null),
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
$function$;

comment on function public.billing_rights() is 'The receiver''s tables, views and functions: what service_role may do with each, and what an app may have granted to authenticated.';

revoke all on function public.billing_rights() from public;

grant EXECUTE on function public.billing_rights() to service_role;
