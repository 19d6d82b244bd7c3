/*
 * Nobody has more rights than before after a squash or a restore. A dump does not
 * say what was revoked, only what was granted. If it is loaded into a project
 * with the default privileges from before 30 October 2026, anon and
 * authenticated may execute every function and read every table. So this repeats
 * what the migrations revoke and grant.
 *
 * A migration that creates a table, view or function replaces this function, with
 * the new object in it. A test compares it with the catalog.
 */
create function public.revoke_billing_rights()
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
    "failure_alerts": "select, insert, update",
    "notification_pace": "select, insert, update",
    "notifications": "select, insert, update",
    "open_failures": "select",
    "processed_events": "select, insert, update, delete",
    "subscriptions": "select, insert, update"
  }';
  -- Whether service_role may execute each function.
  function_rights constant jsonb := '{
    "account_email": true,
    "account_of_customer": true,
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
    "has_access": true,
    "has_long_number": true,
    "keep_original_payload": false,
    "lock_failed_event": true,
    "merge_update": true,
    "notification_waits": true,
    "open_alerts": true,
    "provider_of_failed_event": false,
    "prune_billing_tables": false,
    "record_failed_event": true,
    "resolve_failed_event": false,
    "retry_failed_event": false,
    "retry_failed_events": false,
    "retry_request_answer": false,
    "revoke_billing_rights": false,
    "schedule_billing_worker": false,
    "settle_failed_events": true,
    "settle_notifications": true,
    "unschedule_billing_worker": false,
    "wake_billing_worker": false
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
    select
      p.oid::regprocedure as signature,
      f.value::boolean as is_called,
      -- Users whom the app lets read subscriptions may also call has_access
      -- (docs/app.md). It sees no more than they do.
      case
        when p.proname = 'has_access'
          and has_any_column_privilege('authenticated', 'public.subscriptions', 'select')
          then 'public, anon, service_role'
        else 'public, anon, authenticated, service_role'
      end as others
    from pg_proc p
    join jsonb_each_text(function_rights) f on f.key = p.proname
    where p.pronamespace = 'public'::regnamespace
  loop
    execute format('revoke all on function %s from %s', item.signature, item.others);
    if item.is_called then
      execute format('grant execute on function %s to service_role', item.signature);
    end if;
  end loop;
end;
$$;

comment on function public.revoke_billing_rights() is
  'Revokes and grants again what the migrations do, for every table, view and function of the receiver. Grants of single columns stay, and with them the right to call has_access. Run it after a squash or a restore.';

/*
 * The newest migration of the receiver in this database, by its number. It is
 * still known after a squash, which keeps neither names nor versions. The last
 * migration of each release replaces it; a test compares it with the files.
 */
create function public.billing_version()
returns text
language sql
immutable
set search_path = ''
as $$
  select '0041'
$$;

comment on function public.billing_version() is
  'The number of the newest migration of the receiver that this database has.';

-- Also for databases that were rebuilt before this migration, and for the two new
-- functions.
select public.revoke_billing_rights();
