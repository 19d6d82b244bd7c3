/*
 * public.billing_forget_marks_ahead: marks that are more than five minutes ahead of the clock
 * are removed, and only these.
 */
begin;
select plan(15);

-- The record has these times, relative to now.
create function pg_temp.insert_record(
  id text, account interval, changed interval, canceled interval, since interval default null, not_since interval default null
)
returns void language sql as $$
  insert into billing.subscriptions (
    id, provider, account_id, status, plan_id, provider_status, account_as_of, changed_as_of, canceled_as_of, past_due_since, not_past_due_as_of
  )
  select id, 'a', 'acc_1', 'active', 'plan_1', 'past_due', m.of[1], m.of[2], m.of[3], now() + since, now() + not_since
  from (
    select array_agg(billing.mark(jsonb_populate_record(
      null::billing.event, jsonb_build_object('occurred_at', now() + t.ahead, 'kind', t.kind)
    )) order by t.place) as of
    from (values (1, account, 'creation'), (2, changed, 'update'), (3, canceled, 'deletion')) as t (place, ahead, kind)
  ) as m
$$;

create function pg_temp.marks(id text)
returns text language sql as $$
  select array_to_string(array[
    billing.time_of(s.account_as_of) - now(), billing.time_of(s.changed_as_of) - now(), billing.time_of(s.canceled_as_of) - now(),
    s.past_due_since - now(), s.not_past_due_as_of - now()
  ], ' ', '-')
  from billing.subscriptions s where s.id = marks.id
$$;

set local role service_role;
select pg_temp.insert_record('tap_ahead', '00:05:01', '1 day', '100 days', '1 day', '1 day');
select pg_temp.insert_record('tap_near', '-1 day', '00:05:00', null, '00:05:00', '00:05:00');
select pg_temp.insert_record('tap_' || c.name, c.account, c.changed, c.canceled, c.since, c.not_since)
from (
  values
    ('account', interval '00:05:01', interval '0', interval '0', interval '0', interval '0'), ('changed', '0', '00:05:01', '0', '0', '0'),
    ('canceled', '0', '0', '00:05:01', '0', '0'), ('since', '0', '0', '0', '00:05:01', '0'), ('not_since', '0', '0', '0', '0', '00:05:01')
) as c (name, account, changed, canceled, since, not_since);

select ok(public.billing_forget_marks_ahead('a', 'tap_ahead'), 'a record that is ahead of the clock has marks to forget');
select is(pg_temp.marks('tap_ahead'), '- - - 00:00:00 00:00:00', 'marks are removed, and the times of past_due become the present');
select ok(not public.billing_forget_marks_ahead('a', 'tap_ahead'), 'the second time there is nothing to forget');
select ok(not public.billing_forget_marks_ahead('a', 'tap_near'), 'five minutes are not too far ahead');
select is(pg_temp.marks('tap_near'), '-1 days 00:05:00 - 00:05:00 00:05:00', 'such a record stays as it is');
select ok(not public.billing_forget_marks_ahead('b', 'tap_account'), 'the other provider''s record is not touched');
select is(
  public.billing_forget_marks_ahead('a', 'tap_' || c.name)::text || ': ' || pg_temp.marks('tap_' || c.name), 'true: ' || c.marks, c.name || ' alone is enough'
)
from (
  values
    ('account', '- 00:00:00 00:00:00 00:00:00 00:00:00'), ('changed', '00:00:00 - 00:00:00 00:00:00 00:00:00'),
    ('canceled', '00:00:00 00:00:00 - 00:00:00 00:00:00'), ('since', '00:00:00 00:00:00 00:00:00 00:00:00 00:00:00'),
    ('not_since', '00:00:00 00:00:00 00:00:00 00:00:00 00:00:00')
) as c (name, marks);

-- What it is for.
create function pg_temp.update_now(event_id text)
returns text language sql as $$
  select a.outcome from public.billing_apply_events(jsonb_build_array(jsonb_build_object(
    'place', 1, 'provider', 'a', 'event_id', event_id, 'type', 'x', 'kind', 'update', 'occurred_at', now(), 'subscription_id', 'tap_later',
    'report', '{"plan_id": "plan_2"}'::jsonb
  ))) as a
$$;
select pg_temp.insert_record('tap_later', '-1 day', '1 day', null);
select is(pg_temp.update_now('tap_1'), 'stale', 'until then, all events are stale');
select public.billing_forget_marks_ahead('a', 'tap_later');
select is(pg_temp.update_now('tap_2'), 'applied', 'without the mark, they are applied');

-- The window that commands read.
select results_eq(
  $$select account_as_of - now(), changed_as_of, changed_by_update, canceled_as_of from public.billing_records where id = 'tap_near'$$,
  $$values (interval '-1 day', now() + interval '5 minutes', true, null::timestamptz)$$, 'it shows marks as times'
);
select ok(
  (select bool_and(not changed_by_update) from public.billing_records where id in ('tap_ahead', 'tap_changed')),
  'without a mark, the newest change is of no update'
);
select * from finish();
rollback;
