/*
 * After a squash or a restore: whatever was granted on the receiver's objects,
 * revoke_billing_rights leaves what the migrations leave. Everything in schema
 * public is the receiver's here.
 */
begin;
select plan(25);

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

-- What the doctor reports, and what it lets pass.

create function pg_temp.excess()
returns text
language sql
as $$
  select string_agg(e.object || ' (' || e.excess || ')', ', ') from public.excess_billing_rights() e
$$;

-- Grants, reports, repairs; then nothing is reported, and every right is as before.
create function pg_temp.reported(p_statements text)
returns text
language plpgsql
as $$
declare
  report text;
begin
  execute p_statements;
  report := pg_temp.excess();
  perform public.revoke_billing_rights();
  if pg_temp.excess() is not null then
    return 'not repaired: ' || pg_temp.excess();
  end if;
  if exists ((table rights except table rights_before) union all (table rights_before except table rights)) then
    return 'other rights than before';
  end if;
  return report;
end;
$$;

select is(pg_temp.excess(), null, 'nothing is reported as the migrations leave it');
select is(
  pg_temp.reported('grant select on table public.failed_events to anon, authenticated'),
  'table public.failed_events (anon: select; authenticated: select)',
  'any right on failed_events is reported'
);
select is(
  pg_temp.reported('grant select (event_id, type) on table public.failed_events to authenticated'),
  'table public.failed_events (authenticated: select on columns)',
  'one on single columns too'
);
select is(
  pg_temp.reported($$
    grant insert on table public.processed_events to public;
    grant select on table public.notifications, public.notification_pace to authenticated$$),
  'table public.notification_pace (authenticated: select), '
    'table public.notifications (authenticated: select), table public.processed_events (PUBLIC: insert)',
  'and those on the other tables'
);
select is(
  pg_temp.reported('grant select on table public.open_failures to authenticated'),
  'view public.open_failures (authenticated: select)',
  'and those on views'
);
select is(
  pg_temp.reported($$
    grant execute on function public.account_email(text) to anon;
    grant execute on function public.wake_billing_worker() to public$$),
  'function public.account_email(text) (anon: execute), '
    'function public.wake_billing_worker() (PUBLIC: execute)',
  'and those on functions'
);
select is(
  pg_temp.reported('grant select (id) on table public.subscriptions to anon'),
  'table public.subscriptions (anon: select on columns)',
  'anon may read no column'
);
select is(
  pg_temp.reported('grant select on table public.subscriptions to authenticated'),
  'table public.subscriptions (authenticated: select)',
  'a whole table without a policy is reported'
);
select is(
  pg_temp.reported('grant update (status) on table public.subscriptions to authenticated'),
  'table public.subscriptions (authenticated: update on columns)',
  'and so is everything but select'
);
select is(
  pg_temp.reported('alter table public.notifications disable row level security'),
  'table public.notifications (row level security is off)',
  'row level security that is off is reported, and enabled again'
);

-- An app's own grants, as docs/app.md has them.

select is(
  pg_temp.reported('grant execute on function public.has_access(text, interval) to anon'),
  'function public.has_access(text,interval) (anon: execute)',
  'anon may not call has_access'
);

create policy "Users read their own subscriptions" on public.subscriptions
  for select to authenticated using (account_id = (select auth.uid())::text);
grant select (id, account_id) on table public.subscriptions to authenticated;
grant execute on function public.has_access(text, interval) to authenticated;
select is(pg_temp.excess(), null, 'what docs/app.md grants is not reported');
grant select on table public.subscriptions to authenticated;
select is(
  pg_temp.excess(), 'table public.subscriptions (authenticated: select)',
  'a select on the whole table is, if single columns are granted'
);

grant select on table public.subscriptions to anon;
grant execute on function public.has_access(text, interval) to anon;
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
grant select on table public.subscriptions to authenticated;
grant execute on function public.has_access(text, interval) to authenticated;
select is(pg_temp.excess(), null, 'with a policy, a select on the whole table alone is not reported');
select public.revoke_billing_rights();
select ok(
  has_table_privilege('authenticated', 'public.subscriptions', 'select')
    and has_function_privilege('authenticated', 'public.has_access(text, interval)', 'execute'),
  'and stays, and has_access with it'
);
drop policy "Users read their own subscriptions" on public.subscriptions;
select public.revoke_billing_rights();
select ok(
  not has_table_privilege('authenticated', 'public.subscriptions', 'select')
    and not has_function_privilege('authenticated', 'public.has_access(text, interval)', 'execute'),
  'without a policy neither stays'
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
