/*
 * has_access as a truth table: every case of a status, a grace, a pause and four
 * times, compared with a list of rules that is written another way than the
 * function; then the cases that matter by name, and who may ask.
 */
begin;
select plan(42);

-- The cases, in words. `seen` is what a creation, an update, a deletion or an
-- older version of the receiver leaves in status and provider_status.
create temporary table words as
select w.word, w.number
from unnest(array[
  'incomplete', 'incomplete_expired', 'trialing', 'active', 'past_due', 'canceled', 'unpaid', 'paused', 'on_hold'
]) with ordinality as w (word, number);

create temporary table cases as
select
  format('case_%s', row_number() over ()) as account, seen.how, seen.status, seen.provider_status,
  paused.paused, period_ends, cancels, failed, changed
from (
  select 'created' as how, 'active' as status, word as provider_status from words
  union all select 'updated', word, word from words
  union all select 'deleted', 'canceled', word from words
  union all select 'by an older version', word, null from words
) as seen
cross join (values (null), ('void'), ('keep_as_draft'), ('mark_uncollectible')) as paused (paused)
cross join unnest(array['long ago', 'later']) as period_ends
cross join unnest(array['never', 'before', 'later']) as cancels
cross join unnest(array['unknown', 'recently', 'long ago']) as failed
cross join unnest(array['unknown', 'recently', 'long ago']) as changed;

create temporary table times (word, at) as
values
  ('unknown', null), ('never', null), ('long ago', now() - interval '90 days'), ('before', now() - interval '1 minute'),
  ('recently', now() - interval '2 days'), ('later', now() + interval '20 days');

insert into public.subscriptions (
  id, provider, account_id, plan_id, status, provider_status, paused,
  current_period_end, cancel_at, past_due_since, changed_as_of
)
select
  'sub_' || c.account, 'a', c.account, 'price_pro', c.status, c.provider_status, c.paused,
  (select at from times where word = c.period_ends), (select at from times where word = c.cancels),
  (select at from times where word = c.failed), (select at from times where word = c.changed)
from cases c;

create temporary table graces (name, grace) as
values ('none', interval '0'), ('three days', '3 days'), ('null', null), ('negative', '-3 days');

-- The rules. The first that applies decides.
create temporary table expected as
select c.account, g.grace, g.name as grace_name, c, rule.number, rule.lets_in
from cases c
cross join graces g
cross join lateral (
  select r.number, r.lets_in
  from (
    values
      (1, 'it was deleted', c.how = 'deleted' or c.status = 'canceled', false),
      (2, 'its time to end has passed', c.cancels = 'before', false),
      (3, 'its invoices are voided', c.paused = 'void', false),
      (4, 'the provider says that all is well', c.provider_status in ('active', 'trialing'), true),
      (5, 'nothing else is known, and all is well', c.provider_status is null and c.status in ('active', 'trialing'), true),
      (6, 'no payment is late', 'past_due' not in (c.status, coalesce(c.provider_status, '')), false),
      (7, 'no grace is given', g.name <> 'three days', false),
      (8, 'the payment failed within the grace', c.failed = 'recently', true),
      (9, 'the payment failed before', c.failed = 'long ago', false),
      (10, 'the period ended before the grace', c.period_ends = 'long ago', false),
      (11, 'no event had a time', c.changed = 'unknown', true),
      (12, 'the newest event is within the grace', c.changed = 'recently', true),
      (13, 'the newest event is older', true, false)
  ) as r (number, text, applies, lets_in)
  where r.applies
  order by r.number
  limit 1
) as rule;

select is((select count(*)::int from expected), 36 * 4 * 4 * 2 * 3 * 3 * 3, 'every case is there');
select is(
  (select array_agg(distinct number order by number) from expected), array(select generate_series(1, 13)),
  'each rule decides some case'
);
select is_empty(
  $$select number, grace_name, c
    from expected
    where public.has_access(account, grace) is distinct from lets_in
    limit 5$$,
  'has_access answers as the rules say, in every case'
);
select is_empty(
  $$select account from cases
    where public.has_access(account) is distinct from public.has_access(account, '0')$$,
  'without a grace there is none'
);

-- By name.
create function pg_temp.lets_in(p_columns jsonb, p_grace interval default '0')
returns boolean
language plpgsql
as $$
begin
  delete from public.subscriptions where account_id = 'acc_1';
  insert into public.subscriptions
  select s.* from jsonb_populate_record(null::public.subscriptions, jsonb_build_object(
    'id', 'sub_1', 'provider', 'a', 'account_id', 'acc_1', 'plan_id', 'price_pro', 'status', 'active',
    'current_period_end', now() + interval '20 days', 'changed_by_update', true, 'changed_in_second', '{}'::jsonb
  ) || p_columns) as s;
  return public.has_access('acc_1', p_grace);
end;
$$;

select ok(pg_temp.lets_in('{"provider_status": "active"}'), 'a subscription that is paid for');
select ok(pg_temp.lets_in('{"status": "trialing", "provider_status": "trialing"}'), 'a trial');
select ok(pg_temp.lets_in('{"provider_status": "trialing"}'), 'a trial that has just been created');
select ok(
  not pg_temp.lets_in('{"provider_status": "incomplete"}'),
  'not before the first payment, although the status of a creation is active'
);
select ok(
  not pg_temp.lets_in('{"status": "incomplete_expired", "provider_status": "incomplete_expired"}', '1 year'),
  'not if the first payment was never made'
);
select ok(pg_temp.lets_in('{}'), 'a record of an older version, whose provider_status is unknown');
select ok(
  pg_temp.lets_in(jsonb_build_object('current_period_end', now() - interval '1 hour')),
  'a renewal whose event is late'
);
select ok(
  pg_temp.lets_in(jsonb_build_object('cancel_at', now() + interval '1 second')), 'canceled, but not yet'
);
select ok(
  not pg_temp.lets_in(jsonb_build_object('cancel_at', now())),
  'not from the moment on at which it ends, although the event of the deletion is late'
);
select ok(
  not pg_temp.lets_in('{"status": "canceled", "provider_status": "active"}', '1 year'),
  'not after the deletion, which leaves provider_status as it was'
);
select ok(
  not pg_temp.lets_in('{"status": "unpaid", "provider_status": "unpaid"}', '1 year'),
  'not after the last attempt to collect the payment'
);
select ok(
  not pg_temp.lets_in('{"status": "paused", "provider_status": "paused"}', '1 year'),
  'not when a trial has ended without a payment method'
);
select ok(not pg_temp.lets_in('{"paused": "void"}', '1 year'), 'not while the invoices are voided');
select ok(pg_temp.lets_in('{"paused": "keep_as_draft"}'), 'while the invoices are kept as drafts');
select ok(pg_temp.lets_in('{"paused": "mark_uncollectible"}'), 'while the invoices are given up');

create function pg_temp.past_due(p_since timestamptz)
returns jsonb
language sql
as $$
  select jsonb_build_object('status', 'past_due', 'provider_status', 'past_due', 'past_due_since', p_since)
$$;
select ok(not pg_temp.lets_in(pg_temp.past_due(now())), 'not after a failed renewal, without a grace');
select ok(
  not pg_temp.lets_in(pg_temp.past_due(now() + interval '5 minutes')),
  'not even if the provider''s clock is ahead'
);
select ok(pg_temp.lets_in(pg_temp.past_due(now() - interval '71 hours'), '72 hours'), 'within the grace');
select ok(not pg_temp.lets_in(pg_temp.past_due(now() - interval '72 hours'), '72 hours'), 'not from the end of the grace on');
select ok(
  not pg_temp.lets_in(
    pg_temp.past_due(now() - interval '4 days') || jsonb_build_object('changed_as_of', now()), '3 days'
  ),
  'not after the grace, although a newer event came and the period ends in 20 days'
);
select ok(
  not pg_temp.lets_in(pg_temp.past_due(now() - interval '1 hour') || '{"paused": "void"}', '3 days'),
  'not within the grace while the invoices are voided'
);
select ok(pg_temp.lets_in(pg_temp.past_due(now() - interval '9 years'), 'infinity'), 'a grace without an end');

select is(public.has_access(null), false, 'null has no access');
select is(public.has_access(''), false, 'a blank account has no access');
select is(public.has_access('acc_nobody', '1 year'), false, 'an unknown account has no access');
select ok(not public.has_access(' acc_1'), 'an account is compared exactly');

select pg_temp.lets_in('{"status": "canceled"}');
insert into public.subscriptions (id, provider, account_id, status, plan_id, current_period_end)
values ('sub_2', 'b', 'acc_1', 'active', 'price_pro', now()), ('sub_3', 'a', 'acc_2', 'unpaid', 'price_pro', now());
select ok(public.has_access('acc_1'), 'one subscription that counts is enough, whatever the others are');
select ok(not public.has_access('acc_2'), 'another account''s does not count');

-- Who may ask.
set local role service_role;
select ok(public.has_access('acc_1') and not public.has_access('acc_2'), 'service_role may ask for every account');
set local role anon;
select throws_ok($$select public.has_access('acc_1')$$, '42501', null, 'anon may not ask');
set local role authenticated;
select throws_ok($$select public.has_access('acc_1')$$, '42501', null, 'authenticated may not ask as shipped');
reset role;

grant execute on function public.has_access(text, interval) to authenticated;
set local role authenticated;
select throws_ok(
  $$select public.has_access('acc_1')$$, '42501', 'permission denied for table subscriptions',
  'to execute it is not enough: the caller''s rights on the table count'
);
reset role;
grant select (account_id, status, provider_status, paused, cancel_at, past_due_since, current_period_end, changed_as_of)
  on table public.subscriptions to authenticated;
set local role authenticated;
select is(public.has_access('acc_1'), false, 'without a policy, a user has access to nothing');
reset role;

create policy "Own" on public.subscriptions for select to authenticated
  using (account_id = (select auth.uid())::text);
insert into public.subscriptions (id, provider, account_id, status, plan_id, current_period_end)
values
  ('sub_4', 'a', '00000000-0000-4000-8000-000000000001', 'active', 'price_pro', now()),
  ('sub_5', 'a', 'team_1', 'active', 'price_pro', now());
select set_config('request.jwt.claims', '{"sub": "00000000-0000-4000-8000-000000000001"}', true);
set local role authenticated;
select ok(public.has_access('00000000-0000-4000-8000-000000000001'), 'a user may ask for their own account');
select ok(not public.has_access('acc_1'), 'and is told nothing about another one');
reset role;

create table public.team_members (team_id text, user_id uuid);
insert into public.team_members values ('team_1', '00000000-0000-4000-8000-000000000001'), ('acc_2', gen_random_uuid());
grant select on public.team_members to authenticated;
create policy "Team" on public.subscriptions for select to authenticated
  using (account_id in (select m.team_id from public.team_members m where m.user_id = (select auth.uid())));
set local role authenticated;
select ok(public.has_access('team_1') and not public.has_access('acc_1'), 'a member may ask for their team');
select set_config('request.jwt.claims', '{"sub": "00000000-0000-4000-8000-000000000002"}', true);
select ok(not public.has_access('team_1'), 'and nobody else may');
select set_config('request.jwt.claims', '', true);
select ok(
  not public.has_access('00000000-0000-4000-8000-000000000001'), 'a token without a user has access to nothing'
);
reset role;

select * from finish();
rollback;
