/*
 * Marks that are ahead of the clock are taken back, and only these.
 */
begin;
select plan(14);

create function pg_temp.insert_record(p_id text, p_account interval, p_changed interval, p_canceled interval)
returns void
language sql
as $$
  insert into public.subscriptions (
    id, provider, account_id, status, plan_id, current_period_end,
    account_as_of, changed_as_of, canceled_as_of
  )
  values (
    p_id, 'a', 'acc_1', 'active', 'plan_1', '2027-02-01T00:00:00Z',
    now() + p_account, now() + p_changed, now() + p_canceled
  )
$$;

create function pg_temp.marks(p_id text)
returns text
language sql
as $$
  select concat_ws(
    ' ', coalesce((s.account_as_of - now())::text, '-'), coalesce((s.changed_as_of - now())::text, '-'),
    coalesce((s.canceled_as_of - now())::text, '-')
  )
  from public.subscriptions s
  where s.id = p_id
$$;

set local role service_role;

select pg_temp.insert_record('tap_ahead', '00:05:01', '1 day', '100 days');
select pg_temp.insert_record('tap_near', '-1 day', '00:05:00', null);
select pg_temp.insert_record('tap_one', '-1 day', '00:00:00', '00:05:01');
select pg_temp.insert_record('tap_other', '1 day', '1 day', '1 day');

select ok(public.forget_marks_ahead('a', 'tap_ahead'), 'a record that is marked ahead has marks to forget');
select is(pg_temp.marks('tap_ahead'), '- - -', 'marks more than five minutes ahead are taken back');
select ok(not public.forget_marks_ahead('a', 'tap_ahead'), 'the second time there is nothing to forget');
select ok(not public.forget_marks_ahead('a', 'tap_near'), 'a mark that is five minutes ahead stays');
select is(pg_temp.marks('tap_near'), '-1 days 00:05:00 -', 'such a record stays as it is');
select ok(public.forget_marks_ahead('a', 'tap_one'), 'one mark is enough');
select is(pg_temp.marks('tap_one'), '-1 days 00:00:00 -', 'the other marks stay');
select ok(not public.forget_marks_ahead('b', 'tap_other'), 'another provider''s record is left alone');

-- past_due_since: the latest that it can have been is now.

select pg_temp.insert_record('tap_past_due', '-1 day', '-1 day', null);
select pg_temp.insert_record('tap_never', '1 day', '1 day', null);
update public.subscriptions s set past_due_since = now() + interval '00:05:01' where s.id = 'tap_past_due';
select ok(public.forget_marks_ahead('a', 'tap_past_due'), 'past_due_since ahead of the clock is enough');
select is(
  (select s.past_due_since from public.subscriptions s where s.id = 'tap_past_due'), now(),
  'past_due_since becomes the present'
);
update public.subscriptions s set past_due_since = now() + interval '00:05:00' where s.id = 'tap_past_due';
select ok(not public.forget_marks_ahead('a', 'tap_past_due'), 'past_due_since five minutes ahead stays');
select ok(public.forget_marks_ahead('a', 'tap_never'), 'a record that was never past_due has marks to forget');
select is(
  (select s.past_due_since from public.subscriptions s where s.id = 'tap_never'), null,
  'but still no past_due_since'
);

reset role;
set local role authenticated;
select throws_ok(
  $$select public.forget_marks_ahead('a', 'tap_other')$$, '42501', null,
  'nobody else may forget marks'
);

select * from finish();
rollback;
