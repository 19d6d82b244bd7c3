-- Written by "deno task types". Defined in:
-- supabase/migrations/20261122000016_billing_0043_excess_billing_rights.sql

CREATE OR REPLACE FUNCTION public.excess_billing_rights()
 RETURNS TABLE(object text, excess text)
 LANGUAGE sql
 STABLE
 SET search_path TO ''
AS $function$
  with objects as (
    select
      r.kind, r.name, r.app_may, format('%s %s', r.kind, c.oid::regclass) as object,
      c.oid as relation, c.relrowsecurity as has_row_security, c.relacl as acl
    from public.billing_rights() r
    join pg_class c on c.relname = r.name and c.relnamespace = 'public'::regnamespace
    where r.kind in ('table', 'view')
    union all
    select
      r.kind, r.name, r.app_may, format('function %s', p.oid::regprocedure),
      null, null, coalesce(p.proacl, acldefault('f', p.proowner))
    from public.billing_rights() r
    join pg_proc p on p.proname = r.name and p.pronamespace = 'public'::regnamespace
    where r.kind = 'function'
  ),
  granted as (
    select o.object, a.grantee, lower(a.privilege_type) as may, false as is_column
    from objects o, aclexplode(o.acl) a
    union all
    select distinct o.object, a.grantee, lower(a.privilege_type), true
    from objects o
    join pg_attribute k on k.attrelid = o.relation, aclexplode(k.attacl) a
  ),
  found as (
    select
      o.kind, o.name, o.object,
      case g.grantee when 0 then 'PUBLIC' else g.grantee::regrole::text end as role,
      g.may || case when g.is_column then ' on columns' else '' end as may
    from granted g
    join objects o on o.object = g.object
    where g.grantee in (0, 'anon'::regrole, 'authenticated'::regrole)
      and not (
        g.grantee = 'authenticated'::regrole
        and g.may is not distinct from o.app_may
        and (
          g.is_column
          or o.kind = 'function'
          or exists (
            select from pg_policy p
            where p.polrelid = o.relation
              and p.polcmd in ('r', '*')
              and p.polroles && array[0, 'authenticated'::regrole::oid]
          ) and not exists (
            select from granted c
            where c.object = g.object and c.grantee = g.grantee
              and c.may = g.may and c.is_column
          )
        )
      )
  ),
  faults as (
    select
      f.kind, f.name, f.object,
      format('%s: %s', f.role, string_agg(f.may, ', ' order by f.may)) as fault
    from found f
    group by f.kind, f.name, f.object, f.role
    union all
    select o.kind, o.name, o.object, 'row level security is off'
    from objects o
    where o.kind = 'table' and not o.has_row_security
  )
  select f.object, string_agg(f.fault, '; ' order by f.fault)
  from faults f
  group by f.kind, f.name, f.object
  order by array_position(array['table', 'view', 'function'], f.kind), f.name
$function$;

comment on function public.excess_billing_rights() is 'For each of the receiver''s tables, views and functions, the rights of anon, authenticated and PUBLIC that nothing of the receiver grants. No row if all is well; select public.revoke_billing_rights() repairs the rest. Called by doctor.';

revoke all on function public.excess_billing_rights() from public;

grant EXECUTE on function public.excess_billing_rights() to service_role;
