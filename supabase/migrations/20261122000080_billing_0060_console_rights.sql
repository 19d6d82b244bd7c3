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
create or replace function public.revoke_billing_rights()
returns void
language plpgsql
volatile
set search_path = ''
as $$
declare
  -- What service_role may do with each table and view.
  relation_rights constant jsonb := '{
    "billing_events_per_hour": "select",
    "billing_health": "select",
    "failed_events": "select, insert, update",
    "notification_pace": "select, insert, update",
    "notifications": "select, insert, update",
    "open_failures": "select",
    "processed_events": "select, insert, update, delete",
    "subscriptions": "select, insert, update"
  }';
  -- Whether service_role may execute each function.
  function_rights constant jsonb := '{
    "account_email": true,
    "apply_billing_events": true,
    "apply_invoice_payment_failed": true,
    "apply_subscription_created": true,
    "apply_subscription_deleted": true,
    "apply_subscription_updated": true,
    "billing_version": true,
    "claim_billing_events": true,
    "claim_failed_events": true,
    "claim_notifications": true,
    "find_subscription": true,
    "forget_marks_ahead": true,
    "has_long_number": true,
    "keep_original_payload": false,
    "lock_failed_event": true,
    "merge_update": true,
    "notification_waits": true,
    "provider_of_failed_event": true,
    "prune_billing_tables": false,
    "record_failed_event": true,
    "resolve_failed_event": true,
    "retry_failed_event": true,
    "retry_failed_events": true,
    "retry_request_answer": true,
    "revoke_billing_rights": false,
    "schedule_billing_worker": false,
    "settle_failed_events": true,
    "settle_notifications": true,
    "unschedule_billing_worker": false,
    "wake_billing_worker": true
  }';
  item record;
begin
  for item in
    select
      c.oid::regclass as relation,
      r.value as rights,
      -- Nothing but a statement of the project's own grants columns (docs/app.md),
      -- so these stay. "revoke all" takes them too.
      (
        select string_agg(format(
          'grant %s (%I) on table %s to %s', a.privilege_type, k.attname, c.oid::regclass,
          case a.grantee when 0 then 'public' else a.grantee::regrole::text end
        ), ';')
        from pg_attribute k, aclexplode(k.attacl) a
        where k.attrelid = c.oid
      ) as column_grants
    from pg_class c
    join jsonb_each_text(relation_rights) r on r.key = c.relname
    where c.relnamespace = 'public'::regnamespace
  loop
    execute format(
      'revoke all on table %s from public, anon, authenticated, service_role', item.relation
    );
    execute format('grant %s on table %s to service_role', item.rights, item.relation);
    if item.column_grants is not null then
      execute item.column_grants;
    end if;
  end loop;

  for item in
    select p.oid::regprocedure as signature, f.value::boolean as is_called
    from pg_proc p
    join jsonb_each_text(function_rights) f on f.key = p.proname
    where p.pronamespace = 'public'::regnamespace
  loop
    execute format(
      'revoke all on function %s from public, anon, authenticated, service_role', item.signature
    );
    if item.is_called then
      execute format('grant execute on function %s to service_role', item.signature);
    end if;
  end loop;
end;
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
