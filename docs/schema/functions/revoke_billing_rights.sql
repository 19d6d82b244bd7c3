-- Written by "deno task types". Defined in:
-- supabase/migrations/20261122000015_billing_0042_billing_rights.sql

CREATE OR REPLACE FUNCTION public.revoke_billing_rights()
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO ''
AS $function$
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
$function$;

comment on function public.revoke_billing_rights() is 'Revokes and grants again what the migrations do, for every table, view and function of the receiver, and enables row level security. What an app was granted stays. Run it after a squash or a restore.';

revoke all on function public.revoke_billing_rights() from public;
