/*
 * settle_notifications: what becomes of a notification after an attempt, and
 * when the next one is.
 */
begin;
select plan(40);
set local timezone = 'UTC';

-- A notification that is leased for its nth attempt.
create function pg_temp.lease(p_event_id text, p_attempts integer default 1)
returns void
language sql
as $$
  insert into public.notifications (
    provider, event_id, account_id, subscription_id, attempts, lease_id, next_attempt_at
  )
  values (
    'a', p_event_id, 'acc_1', 'tap_sub', p_attempts, gen_random_uuid(), now() + interval '1 minute'
  )
$$;

create function pg_temp.row_of(p_event_id text)
returns public.notifications
language sql
as $$
  select * from public.notifications where event_id = p_event_id
$$;

create function pg_temp.result(p_event_id text, p_fields jsonb)
returns jsonb
language sql
as $$
  select jsonb_build_object('id', n.id, 'lease_id', n.lease_id) || p_fields
  from pg_temp.row_of(p_event_id) as n
$$;

create function pg_temp.settle(p_event_id text, p_fields jsonb)
returns integer
language sql
as $$
  select public.settle_notifications(jsonb_build_array(pg_temp.result(p_event_id, p_fields)), 'tap_host')
$$;

-- How long after now it is tried again.
create function pg_temp.wait_of(p_event_id text)
returns interval
language sql
as $$
  select n.next_attempt_at - now() from pg_temp.row_of(p_event_id) as n
$$;

set local role service_role;

-- Sent.

select pg_temp.lease('tap_sent');
update public.notifications set last_error = 'the receiver answered 500' where event_id = 'tap_sent';
select is(pg_temp.settle('tap_sent', '{"result": "sent"}'), 1, 'what was sent is settled');
select is(
  (
    select jsonb_build_array(n.status, n.attempts, n.sent_at, n.lease_id)
    from pg_temp.row_of('tap_sent') as n
  ),
  jsonb_build_array('sent', 1, now(), null),
  'it is sent, at the time of settling, and the lease is over'
);
select is(
  (select n.last_error from pg_temp.row_of('tap_sent') as n), 'the receiver answered 500',
  'what an attempt before it met with is kept'
);

-- Failed: the schedule.

select pg_temp.lease('tap_failed_' || n, n) from generate_series(1, 10) as n;
select is(
  public.settle_notifications((
    select jsonb_agg(pg_temp.result('tap_failed_' || n, jsonb_build_object(
      'result', 'failed', 'error', 'failure ' || n, 'retry_after_seconds', null
    )))
    from generate_series(1, 10) as n
  ), 'tap_host'),
  10,
  'a whole batch is settled in one call'
);
select is_empty(
  $$select n, pg_temp.wait_of('tap_failed_' || n)
    from unnest(public.notification_waits()) with ordinality as w (base, n)
    where pg_temp.wait_of('tap_failed_' || n) not between w.base and w.base * 1.1$$,
  'the attempts 1 to 9 are followed by the wait of the schedule, with at most 10 % on top'
);
select results_eq(
  $$select r.status, r.attempts, r.last_error, r.lease_id, r.sent_at
    from generate_series(1, 9) as n, pg_temp.row_of('tap_failed_' || n) as r order by n$$,
  $$select 'pending', n, 'failure ' || n, null::uuid, null::timestamptz
    from generate_series(1, 9) as n order by n$$,
  'they stay pending, with the error and without a lease'
);
select is(
  (
    select jsonb_build_array(n.status, n.attempts, n.last_error, n.lease_id)
    from pg_temp.row_of('tap_failed_10') as n
  ),
  '["dead", 10, "failure 10", null]',
  'after the tenth attempt the notification is dead'
);

select pg_temp.lease('tap_jitter_' || n) from generate_series(1, 100) as n;
select public.settle_notifications((
  select jsonb_agg(pg_temp.result('tap_jitter_' || n, '{"result": "failed"}'))
  from generate_series(1, 100) as n
), 'tap_host');
-- With 100 of them, chance fails each of the two once in about 13 million runs.
select ok(
  (
    select min(pg_temp.wait_of('tap_jitter_' || n)) < interval '5.08 s'
      and max(pg_temp.wait_of('tap_jitter_' || n)) > interval '5.42 s'
    from generate_series(1, 100) as n
  ),
  'what failed together is spread over the 10 %'
);

-- Failed: what the receiver asks for.

select pg_temp.lease('tap_' || name)
from unnest(array['later', 'sooner', 'for_ever', 'beyond_integers', 'before_now']) as name;
select is(
  public.settle_notifications((
    select jsonb_agg(pg_temp.result('tap_' || name, jsonb_build_object(
      'result', 'failed', 'error', '429', 'retry_after_seconds', seconds
    )))
    from (
      values
        ('later', 120), ('sooner', 1), ('for_ever', 999999999),
        ('beyond_integers', 253402300799), ('before_now', -5)
    ) as asked (name, seconds)
  ), 'tap_host'),
  5,
  'a Retry-After that is out of all reason keeps nothing from being settled'
);
select is(pg_temp.wait_of('tap_later'), interval '2 minutes', 'a later Retry-After is kept to');
select ok(
  pg_temp.wait_of('tap_sooner') between interval '5 s' and interval '5.5 s',
  'an earlier one does not shorten the wait'
);
select is(pg_temp.wait_of('tap_for_ever'), interval '86400 s', 'none is longer than a day');
select is(
  pg_temp.wait_of('tap_beyond_integers'), interval '86400 s',
  'not even one of thousands of years'
);
select ok(
  pg_temp.wait_of('tap_before_now') between interval '5 s' and interval '5.5 s',
  'one that is over already does not shorten the wait'
);

-- Given up.

select pg_temp.lease('tap_gone');
select pg_temp.lease('tap_nowhere');
select is(
  public.settle_notifications(jsonb_build_array(
    pg_temp.result('tap_gone', '{"result": "dead", "error": "the receiver answered 410 Gone"}'),
    pg_temp.result('tap_nowhere', '{"result": "undeliverable", "error": "no address"}')
  ), 'tap_host'),
  2,
  'what is given up is settled'
);
select is(
  (select jsonb_build_array(n.status, n.last_error, n.sent_at) from pg_temp.row_of('tap_gone') as n),
  '["dead", "the receiver answered 410 Gone", null]',
  'dead at the first attempt, where the receiver wants no more'
);
select is(
  (select jsonb_build_array(n.status, n.last_error, n.sent_at) from pg_temp.row_of('tap_nowhere') as n),
  '["undeliverable", "no address", null]',
  'undeliverable, where there is nowhere to send it'
);
update public.notifications set next_attempt_at = now() where event_id like 'tap_%';
select is_empty(
  $$select event_id from public.claim_notifications(1000, 60, 'tap_host')
    where event_id in ('tap_sent', 'tap_gone', 'tap_nowhere', 'tap_failed_10')$$,
  'none of these is ever claimed again'
);

-- Limited: 429 is no attempt.

create function pg_temp.pause_of(p_destination text)
returns interval
language sql
as $$
  select p.next_send_at - clock_timestamp() from public.notification_pace p where p.destination = p_destination
$$;

select pg_temp.lease('tap_limited', 10), pg_temp.lease('tap_unsent', 10);
update public.notifications set last_error = 'before' where event_id in ('tap_limited', 'tap_unsent');
select is(
  public.settle_notifications(jsonb_build_array(
    pg_temp.result('tap_limited', '{"result": "limited", "error": "429", "retry_after_seconds": 120}'),
    pg_temp.result('tap_unsent', '{"result": "unsent"}')
  ), 'tap_limits'),
  2,
  'what was limited is settled, with what was not sent because of it'
);
select results_eq(
  $$select r.status, r.attempts, r.last_error, r.lease_id, r.limited_since = now()
    from unnest(array['tap_limited', 'tap_unsent']) with ordinality as e (event_id, n), pg_temp.row_of(e.event_id) as r
    order by n$$,
  $$values ('pending', 9, '429', null::uuid, true), ('pending', 9, 'before', null, null)$$,
  'neither counts as an attempt, not even as the last; the reason is on the row that was answered'
);
select ok(
  pg_temp.pause_of('tap_limits') between interval '119 s' and interval '120 s',
  'nothing is sent there until Retry-After is over'
);
select is(
  (select n.next_attempt_at from pg_temp.row_of('tap_limited') as n),
  (select p.next_send_at from public.notification_pace p where p.destination = 'tap_limits'),
  'and it is due then'
);
select is(pg_temp.wait_of('tap_unsent'), interval '0', 'what was not sent is due as it was');
select is_empty(
  $$select event_id from public.claim_notifications(1000, 60, 'tap_limits')$$, 'a claim gets nothing meanwhile'
);
select isnt_empty(
  $$select event_id from public.claim_notifications(1000, 60, 'tap_other_host') where event_id = 'tap_unsent'$$,
  'another receiver has limits of its own'
);

select pg_temp.lease('tap_asks_' || name) from unnest(array['nothing', 'now', 'for_ever']) as name;
select public.settle_notifications(jsonb_build_array(pg_temp.result(
  'tap_asks_' || name, jsonb_build_object('result', 'limited', 'error', '429', 'retry_after_seconds', seconds)
)), 'tap_' || name)
from (values ('nothing', null), ('now', 0), ('for_ever', 253402300799)) as asked (name, seconds);
select ok(
  pg_temp.pause_of('tap_nothing') between interval '59 s' and interval '60 s',
  'without Retry-After the pause is a minute'
);
select ok(
  pg_temp.pause_of('tap_now') between interval '0.9 s' and interval '1 s',
  'a second at least'
);
select ok(
  pg_temp.pause_of('tap_for_ever') between interval '86399 s' and interval '86400 s',
  'and a day at most'
);

-- For as long as ten attempts take: 75 hours and 35 minutes.
select pg_temp.lease('tap_hours_' || hours) from unnest(array[1, 75, 76]) as hours;
update public.notifications set limited_since = now() - make_interval(hours => substr(event_id, 11)::integer)
where event_id like 'tap\_hours\_%';
select pg_temp.settle('tap_hours_' || hours, '{"result": "limited", "error": "429"}') from unnest(array[1, 75, 76]) as hours;
select results_eq(
  $$select r.status, now() - r.limited_since
    from unnest(array[1, 75, 76]) as hours, pg_temp.row_of('tap_hours_' || hours) as r order by hours$$,
  $$values ('pending', interval '1 hour'), ('pending', interval '75 hours'), ('dead', null)$$,
  'a receiver that answers 429 for ever is given up after as long as ten attempts take'
);
select is(
  (select n.last_error from pg_temp.row_of('tap_hours_76') as n), '429', 'with the reason'
);
update public.notifications set lease_id = gen_random_uuid(), attempts = 1 where event_id = 'tap_hours_75';
select pg_temp.settle('tap_hours_75', '{"result": "failed", "error": "500"}');
select is(
  (select n.limited_since from pg_temp.row_of('tap_hours_75') as n), null, 'any other answer begins it anew'
);
select throws_ok(
  $$update public.notification_pace set next_send_at = null$$, '23502', null, 'there is always a time'
);

-- A lease that was taken over.

select pg_temp.lease('tap_taken');
create temporary table late as
select pg_temp.result('tap_taken', '{"result": "dead", "error": "too late"}') as result;
update public.notifications set lease_id = gen_random_uuid(), attempts = 2 where event_id = 'tap_taken';
create temporary table before as select to_jsonb(n) as row from pg_temp.row_of('tap_taken') as n;

select is(
  (select public.settle_notifications(jsonb_build_array(result), 'tap_host') from late), 0,
  'a worker whose lease was taken over settles nothing'
);
select is(
  (select to_jsonb(n) from pg_temp.row_of('tap_taken') as n), (select row from before),
  'and changes nothing'
);

select pg_temp.lease('tap_twice');
create temporary table twice as
select pg_temp.result('tap_twice', '{"result": "sent"}') as result;
select is(
  (select public.settle_notifications(jsonb_build_array(result), 'tap_host') from twice), 1,
  'the worker that holds the lease settles'
);
select is(
  (
    select public.settle_notifications(jsonb_build_array(result || '{"result": "dead"}'), 'tap_host')
    from twice
  ),
  0,
  'once: the same lease settles nothing more'
);
select is(
  public.settle_notifications(jsonb_build_array(
    jsonb_build_object('id', gen_random_uuid(), 'lease_id', gen_random_uuid(), 'result', 'sent')
  ), 'tap_host'),
  0,
  'a notification that is not there is not settled'
);

select pg_temp.lease('tap_reset', 0);
select is(
  pg_temp.settle('tap_reset', '{"result": "limited", "error": "429"}'), 1,
  'one that was limited is settled if somebody has reset its attempts meanwhile'
);

-- Nothing, and nonsense.

select is(public.settle_notifications('[]', 'tap_host'), 0, 'an empty batch settles nothing');
select pg_temp.lease('tap_nonsense');
select throws_ok(
  $$select pg_temp.settle('tap_nonsense', '{"result": "delivered"}')$$, '23514', null,
  'an unknown result is refused'
);

select * from finish();
rollback;
