/*
 * has_access with a million subscriptions: by the index, in a call and in the
 * policy of another table. The function is not inlined, so its own plan is the
 * plan of its text, and what a call reads is what Postgres counts.
 */
begin;
select plan(10);

-- A rollback of the truncation leaves no dead rows to the tests after this one.
-- Indexes are quicker to build afterwards.
truncate public.subscriptions;
drop index public.subscriptions_account_id, public.subscriptions_customer_id;
alter table public.subscriptions drop constraint subscriptions_pkey;
insert into public.subscriptions (id, provider, account_id, status, provider_status, plan_id, current_period_end)
select 'sub_' || i, 'a', 'acc_' || i, 'active', 'active', 'price_pro', now()
from generate_series(1, 1000000) as i;
create index subscriptions_account_id on public.subscriptions (account_id);
analyze public.subscriptions;

create table public.documents (account_id text not null);
insert into public.documents select 'acc_' || i % 1000 from generate_series(1, 10000) as i;
create index on public.documents (account_id);
analyze public.documents;
alter table public.documents enable row level security;

grant execute on function public.has_access(text, interval) to authenticated;
grant select on public.documents to authenticated;
grant select (account_id, status, provider_status, paused, cancel_at, past_due_since, current_period_end, changed_as_of)
  on table public.subscriptions to authenticated;
create policy "Own" on public.subscriptions for select to authenticated
  using (account_id = (select auth.jwt() ->> 'account'));
create policy "Own, with access" on public.documents for select to authenticated
  using (
    account_id = (select auth.jwt() ->> 'account')
    and (select public.has_access((select auth.jwt() ->> 'account'), '3 days'))
  );
select set_config('request.jwt.claims', '{"account": "acc_7"}', true);

-- The function's text as a statement. Like a function, it is planned without
-- knowing its arguments.
set local plan_cache_mode = force_generic_plan;
do $$
begin
  execute (
    select 'prepare body (text, interval) as ' ||
      replace(replace(p.prosrc, 'has_access.account_id', '$1'), 'has_access.grace', '$2')
    from pg_proc p where p.oid = 'public.has_access(text,interval)'::regprocedure
  );
end;
$$;
create function pg_temp.plan_of(p_statement text)
returns text
language plpgsql
as $$
declare
  line text;
  lines text := '';
begin
  for line in execute 'explain (costs off) ' || p_statement loop
    lines := lines || line || E'\n';
  end loop;
  return lines;
end;
$$;

select matches(
  pg_temp.plan_of($$execute body ('acc_7', '3 days')$$), 'Index Scan using subscriptions_account_id',
  'has_access uses the index on account_id'
);
select matches(
  pg_temp.plan_of('select from public.subscriptions where plan_id = ''price_pro'''), 'Seq Scan',
  'a scan would be seen'
);
set local role authenticated;
select matches(
  pg_temp.plan_of($$execute body ('acc_7', '3 days')$$), 'Index Scan using subscriptions_account_id',
  'under a policy too'
);
select doesnt_match(pg_temp.plan_of($$execute body ('acc_7', '3 days')$$), 'Seq Scan', 'with no scan beside it');
reset role;

-- What calls read.
create temporary view reads as
select seq_scan, idx_tup_fetch from pg_stat_xact_user_tables where relname = 'subscriptions';
create temporary table before as select * from reads;

set local role authenticated;
select ok(public.has_access('acc_7') and not public.has_access('acc_8'), 'a call with a million subscriptions');
select is((select count(*)::int from public.documents), 10, 'a policy of another table asks has_access');
reset role;
select is(
  (select r.seq_scan - b.seq_scan from reads r, before b), 0::bigint, 'neither reads subscriptions to its end'
);
select is(
  (select r.idx_tup_fetch - b.idx_tup_fetch from reads r, before b), 2::bigint,
  'they read one row per call, and none of another account'
);

set local role authenticated;
select matches(
  pg_temp.plan_of('select from public.documents'), 'InitPlan',
  'in a subquery, the policy asks once per statement'
);
select matches(
  pg_temp.plan_of('select from public.documents'), 'Index Cond: \(account_id = \(InitPlan',
  'and finds the rows by their own index'
);
reset role;

select * from finish();
rollback;
