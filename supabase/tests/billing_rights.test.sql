/*
 * After a squash or a restore: whatever was granted on the receiver's objects,
 * revoke_billing_rights leaves what the migrations leave. Everything in schema
 * public is the receiver's here.
 */
begin;
select plan(9);

create temporary view rights as
select c.oid::regclass::text as object, a.grantee, a.privilege_type
from pg_class c, aclexplode(c.relacl) a
where c.relnamespace = 'public'::regnamespace
union all
select p.oid::regprocedure::text, a.grantee, a.privilege_type
from pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
where p.pronamespace = 'public'::regnamespace
  and not exists (
    select from pg_depend d
    where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e'
  );

create temporary table rights_before as table rights;

grant all on all tables in schema public to public, anon, authenticated, service_role;
grant execute on all functions in schema public to public, anon, authenticated, service_role;
select ok(
  (select count(*) from rights) > 2 * (select count(*) from rights_before),
  'anon and authenticated were given every right, on every object'
);
select lives_ok('select public.revoke_billing_rights()', 'revoke_billing_rights runs');
select set_eq('table rights', 'table rights_before', 'afterwards the rights are those of before');

-- An app's own grant of columns, as docs/app.md has it.
grant select (id, account_id) on table public.subscriptions to authenticated;
grant select on table public.subscriptions to anon;
grant execute on function public.has_access(text, interval) to authenticated, anon;
select public.revoke_billing_rights();
select ok(
  has_column_privilege('authenticated', 'public.subscriptions', 'account_id', 'select'),
  'the columns that an app was granted stay'
);
select ok(
  not has_column_privilege('authenticated', 'public.subscriptions', 'plan_id', 'select')
    and not has_column_privilege('anon', 'public.subscriptions', 'account_id', 'select'),
  'and no others, for no other role'
);
select ok(
  has_function_privilege('authenticated', 'public.has_access(text, interval)', 'execute')
    and not has_function_privilege('anon', 'public.has_access(text, interval)', 'execute'),
  'a role that may read columns may still call has_access'
);
revoke select (id, account_id) on table public.subscriptions from authenticated;
select public.revoke_billing_rights();
select ok(
  not has_function_privilege('authenticated', 'public.has_access(text, interval)', 'execute'),
  'and nobody else'
);

-- A function of the project's own is left alone.
create function public.hello() returns text language sql return 'hello';
grant execute on function public.hello() to anon;
select public.revoke_billing_rights();
select ok(
  has_function_privilege('anon', 'public.hello()', 'execute'),
  'what is not the receiver''s keeps its rights'
);

set local role authenticated;
select throws_ok(
  'select public.revoke_billing_rights()', '42501', null,
  'only the owner may run it'
);
reset role;

select * from finish();
rollback;
