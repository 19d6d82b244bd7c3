/*
 * The receiver's tables, views and functions, and who may do what with them: what
 * the migrations grant to service_role, and what an app may have granted to
 * authenticated on purpose (docs/app.md). Nobody else has any right.
 *
 * A migration that creates a table, view or function replaces this function, with
 * the new object in it. A test compares it with the catalog.
 */
create function public.billing_rights()
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

revoke all on function public.billing_rights() from public, anon, authenticated, service_role;
grant execute on function public.billing_rights() to service_role;

comment on function public.billing_rights() is
  'The receiver''s tables, views and functions: what service_role may do with each, and what an app may have granted to authenticated.';

/*
 * Nobody has more rights than before after a squash or a restore. A dump does not
 * say what was revoked, only what was granted. If it is loaded into a project
 * with the default privileges from before 30 October 2026, anon and
 * authenticated may execute every function and read every table. So this repeats
 * what the migrations revoke and grant.
 *
 * What an app was granted stays (docs/app.md): single columns, and with them
 * has_access. No default privilege grants a column, so such a grant is the
 * project's own. Without single columns, a select on the whole table is the
 * project's own too if a policy says which rows authenticated may read.
 */
create function public.revoke_billing_rights()
returns void
language plpgsql
volatile
set search_path = ''
as $$
declare
  item record;
begin
  for item in
    with objects as (
      select r.*, c.oid as relation, null::oid as function, format('table %s', c.oid::regclass) as object
      from public.billing_rights() r
      join pg_class c on c.relname = r.name and c.relnamespace = 'public'::regnamespace
      where r.kind in ('table', 'view')
      union all
      select r.*, null, p.oid, format('function %s', p.oid::regprocedure)
      from public.billing_rights() r
      join pg_proc p on p.proname = r.name and p.pronamespace = 'public'::regnamespace
      where r.kind = 'function'
    ),
    columns as (
      select o.relation, string_agg(format('%I', k.attname), ', ' order by k.attnum) as granted
      from objects o
      join pg_attribute k on k.attrelid = o.relation, aclexplode(k.attacl) a
      where o.app_may = 'select'
        and a.privilege_type = 'SELECT' and a.grantee = 'authenticated'::regrole
      group by o.relation
    ),
    app_reads as (
      select c.relation, format('select (%s)', c.granted) as may from columns c
      union all
      select o.relation, 'select'
      from objects o
      where o.app_may = 'select'
        and o.relation not in (select c.relation from columns c)
        and has_table_privilege('authenticated', o.relation, 'select')
        and exists (
          select from pg_policy p
          where p.polrelid = o.relation
            and p.polcmd in ('r', '*')
            and p.polroles && array[0, 'authenticated'::regrole::oid]
        )
    )
    select
      o.object,
      o.service_role_may,
      case
        when o.relation is not null then (
          select r.may from app_reads r where r.relation = o.relation
        )
        when o.app_may = 'execute' and exists (select from app_reads)
          and has_function_privilege('authenticated', o.function, 'execute')
        then 'execute'
      end as app_may,
      o.kind = 'table'
        and not (select c.relrowsecurity from pg_class c where c.oid = o.relation) as is_open
    from objects o
  loop
    execute format(
      'revoke all on %s from public, anon, authenticated, service_role', item.object
    );
    if item.service_role_may is not null then
      execute format('grant %s on %s to service_role', item.service_role_may, item.object);
    end if;
    if item.app_may is not null then
      execute format('grant %s on %s to authenticated', item.app_may, item.object);
    end if;
    if item.is_open then
      execute format('alter %s enable row level security', item.object);
    end if;
  end loop;
end;
$$;

-- It revokes its own rights below, with all others.
comment on function public.revoke_billing_rights() is
  'Revokes and grants again what the migrations do, for every table, view and function of the receiver, and enables row level security. What an app was granted stays. Run it after a squash or a restore.';

-- Also for databases that were rebuilt before this migration.
select public.revoke_billing_rights();
