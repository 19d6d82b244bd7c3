/*
 * The outbox at work: which notifications a run of the worker claims, what becomes of them,
 * and when they are tried again.
 */
begin;
select plan(73);
truncate billing.notifications, billing.leases, billing.pauses;

create function pg_temp.owe(event_id text, fields jsonb default '{}')
returns void language sql as $$
  select pg_temp.add('notifications', jsonb_build_object(
    'provider', 'a',
    'event_id', event_id,
    'account_id', 'acc_1',
    'subscription_id', 'sub_1',
    'occurred_at', now()
  ) || fields)
$$;

create function pg_temp.row_of(event_id text)
returns billing.notifications language sql as $$
  select * from billing.notifications n where n.event_id = row_of.event_id
$$;

create function pg_temp.claim(
  number integer,
  batch_size integer default 100,
  destination text default 'host'
)
returns text language sql as $$
  select coalesce(string_agg(c ->> 'event_id', ' ' order by c ->> 'event_id'), '')
  from public.billing_claim_notifications(pg_temp.run(number), batch_size, destination) as c
$$;

create function pg_temp.settle(
  number integer,
  event_id text,
  fields jsonb,
  destination text default 'host'
)
returns integer language sql as $$
  select public.billing_settle_notifications(
    pg_temp.run(number),
    destination,
    jsonb_build_array(jsonb_build_object('id', (pg_temp.row_of(event_id)).id) || fields)
  )
$$;

create function pg_temp.wait_of(event_id text)
returns interval language sql
return (pg_temp.row_of(event_id)).next_attempt_at - now();

set local role service_role;

-- A run holds the queue.
select is(pg_temp.claim(1), '', 'an empty outbox gives nothing');
select results_eq(
  $$
    select
      queue,
      lease_id,
      held_until - clock_timestamp() between interval '59 s' and interval '60 s'
    from billing.leases
  $$,
  $$values ('notifications', pg_temp.run(1), true)$$,
  'a claim holds the queue for a minute'
);

reset role;
select pg_temp.owe('tap_1', '{
  "invoice_id": "in_1",
  "hosted_invoice_url": "https://pay.example.com/in_1",
  "amount_due": 1234,
  "currency": "eur",
  "attempt_count": 2,
  "next_payment_attempt": "2026-05-03T10:00:00Z",
  "occurred_at": "2026-05-01T10:00:00Z"
}');
set local role service_role;
select is(
  pg_temp.claim(2) || pg_temp.settle(2, 'tap_1', '{"result": "dead"}'),
  '0',
  'a second run claims and settles nothing'
);
select results_eq(
  $$
    select c - '{status,next_attempt_at,last_error,sent_at}'::text[]
    from public.billing_claim_notifications(pg_temp.run(1), 10, 'host') as c
  $$,
  $$
    select jsonb_build_object(
      'id', md5('a/tap_1/payment_failed')::uuid,
      'attempts', 1,
      'kind', 'payment_failed',
      'provider', 'a',
      'event_id', 'tap_1',
      'account_id', 'acc_1',
      'subscription_id', 'sub_1',
      'invoice_id', 'in_1',
      'hosted_invoice_url', 'https://pay.example.com/in_1',
      'amount_due', 1234,
      'currency', 'eur',
      'attempt_count', 2,
      'next_payment_attempt', '2026-05-03T10:00:00+00:00',
      'trial_end', null,
      'still_has_access', null,
      'occurred_at', '2026-05-01T10:00:00+00:00',
      'created_at', now()
    )
  $$,
  'a claim returns the notification, the number of the attempt, and an ID'
);
select is(
  (
    select jsonb_build_array(n.status, n.attempts, n.last_error, n.sent_at)
    from pg_temp.row_of('tap_1') as n
  ),
  '["pending", 1, null, null]',
  'an attempt is counted before sending'
);

select pg_temp.end_lease();
select is(pg_temp.claim(2), '', 'an unsettled notification is not claimed again at once');

update billing.notifications
set next_attempt_at = next_attempt_at - interval '60 s'
where event_id = 'tap_1';
select is(pg_temp.claim(2), 'tap_1', 'another run claims it after the lease');

select is(
  pg_temp.settle(1, 'tap_1', '{"result": "sent"}'),
  0,
  'the first run settles nothing after its lease'
);
update billing.leases set held_until = clock_timestamp() + interval '1 s';
select pg_temp.claim(2);
update billing.notifications
set next_attempt_at = next_attempt_at - interval '60 s'
where event_id = 'tap_1';
select ok(
  (select held_until > clock_timestamp() + interval '50 s' from billing.leases),
  'a claim extends the lease'
);
select ok(
  not public.billing_release_lease(queue, pg_temp.run(number)),
  format('run %s releases %s, if it has it', number, queue)
)
from (values ('notifications', 1), ('retries', 2), ('notifications', 2)) as r (queue, number);
select is(pg_temp.claim(3), 'tap_1', 'after that, the next run claims at once');
select ok(billing.hold_lease('retries', pg_temp.run(4)), 'each queue has a lease of its own');

reset role;
truncate billing.notifications;
select pg_temp.owe('tap_quiet', '{"status": "sent"}');
analyze billing.notifications;
select pg_temp.owe('tap_' || n, jsonb_build_object('next_attempt_at', now() - n * interval '1 s'))
from generate_series(11, 70) as n;
set local role service_role;
select is(
  pg_temp.claim(3, 2),
  'tap_69 tap_70',
  'a claim takes those that are due longest, up to the limit'
);
select is(
  (select count(*)::integer from billing.notifications where attempts > 0),
  2,
  'only claimed notifications count an attempt'
);

reset role;
truncate billing.notifications;
select pg_temp.owe('tap_later', jsonb_build_object('next_attempt_at', now() + interval '1 s'));
select pg_temp.owe('tap_' || status, jsonb_build_object('status', status))
from unnest(array['sent', 'dead', 'undeliverable']) as status;
select pg_temp.owe('tap_ninth', '{"attempts": 9}');
select pg_temp.owe('tap_tenth', '{"attempts": 10}');
select pg_temp.owe('tap_tenth_failed', '{
  "attempts": 10,
  "last_error": "the receiver answered 500"
}');
select pg_temp.owe('tap_tenth_later', jsonb_build_object(
  'attempts', 10,
  'next_attempt_at', now() + interval '1 s'
));
set local role service_role;
select is(
  pg_temp.claim(3),
  'tap_ninth',
  'a claim takes what is due and pending, for at most ten attempts'
);
select set_eq(
  $$
    select event_id, status, attempts, last_error
    from billing.notifications
    where event_id like 'tap\_tenth%'
  $$,
  $$
    values
      ('tap_tenth', 'dead', 10, 'the worker of the last attempt did not report a result'),
      ('tap_tenth_failed', 'dead', 10,
        'the receiver answered 500; the worker of the last attempt did not report a result'),
      ('tap_tenth_later', 'pending', 10, null)
  $$,
  'a notification without a result of its last attempt is dead'
);

-- Results.
reset role;
truncate billing.notifications;
select pg_temp.owe('tap_sent', '{"attempts": 2, "last_error": "the receiver answered 500"}');
select pg_temp.owe('tap_gone', '{"attempts": 1}'), pg_temp.owe('tap_nowhere', '{"attempts": 1}');
set local role service_role;
select is(
  public.billing_settle_notifications(
    pg_temp.run(3),
    'host',
    (
      select jsonb_agg(jsonb_build_object(
        'id', (pg_temp.row_of(r.event_id)).id,
        'result', r.result,
        'error', r.error
      ))
      from (
        values
          ('tap_sent', 'sent', null),
          ('tap_gone', 'dead', 'the receiver answered 410'),
          ('tap_nowhere', 'undeliverable', 'no address')
      ) as r (event_id, result, error)
    )
      || jsonb_build_array(jsonb_build_object('id', gen_random_uuid(), 'result', 'sent'))
  ),
  3,
  'a call settles a batch'
);
select set_eq(
  $$select event_id, status, attempts, last_error, sent_at = now() from billing.notifications$$,
  $$
    values
      ('tap_gone', 'dead', 1, 'the receiver answered 410', null),
      ('tap_nowhere', 'undeliverable', 1, 'no address', null),
      ('tap_sent', 'sent', 2, 'the receiver answered 500', true)
  $$,
  'each notification has its result, and keeps its last error'
);
update billing.notifications set next_attempt_at = now();
select is(
  pg_temp.settle(3, 'tap_sent', '{"result": "dead"}') || pg_temp.claim(3),
  '0',
  'a settled notification is neither settled nor claimed again'
);

-- Failed: the schedule.
select is(
  billing.notification_waits(),
  '{5 s,5 min,30 min,2 h,5 h,10 h,14 h,20 h,24 h}'::interval[],
  'the waits are those of Standard Webhooks'
);

reset role;
select pg_temp.owe('tap_failed_' || n, jsonb_build_object('attempts', n))
from generate_series(1, 10) as n;
select pg_temp.owe('tap_jitter_' || n, '{"attempts": 1}') from generate_series(1, 100) as n;
select pg_temp.owe('tap_reset', '{"attempts": 0}');
set local role service_role;
select pg_temp.settle(3, event_id, jsonb_build_object(
  'result', 'failed',
  'error', 'failure ' || event_id
))
from billing.notifications
where status = 'pending';
select is_empty(
  $$
    select n
    from unnest(billing.notification_waits()) with ordinality as w (wait, n)
    where pg_temp.wait_of('tap_failed_' || n) not between w.wait and w.wait * 1.1
  $$,
  'a failed attempt leads to the wait of the schedule and up to 10 % more'
);
select results_eq(
  $$
    select r.status, r.attempts, r.last_error
    from generate_series(9, 10) as n, pg_temp.row_of('tap_failed_' || n) as r
    order by n
  $$,
  $$values ('pending', 9, 'failure tap_failed_9'), ('dead', 10, 'failure tap_failed_10')$$,
  'a notification is dead after the tenth attempt'
);

-- Chance fails this once in six million runs.
select ok(
  (
    select min(pg_temp.wait_of(event_id)) < interval '5.08 s'
      and max(pg_temp.wait_of(event_id)) > interval '5.42 s'
    from billing.notifications
    where event_id like 'tap\_jitter%'
  ),
  'retries of what failed together are spread'
);
select is(
  pg_temp.wait_of('tap_reset'),
  interval '0',
  'a notification that was set back meanwhile is due at once'
);

reset role;
select pg_temp.owe('tap_' || name, '{"attempts": 1}')
from unnest(array['later', 'sooner', 'for_ever', 'beyond', 'before']) as name;
set local role service_role;
select pg_temp.settle(3, 'tap_' || a.name, jsonb_build_object(
  'result', 'failed',
  'retry_after_seconds', a.seconds
))
from (
  values
    ('later', 120),
    ('sooner', 1),
    ('for_ever', 999999999),
    ('beyond', 253402300799),
    ('before', -5)
) as a (name, seconds);
select results_eq(
  $$
    select date_trunc('second', pg_temp.wait_of('tap_' || name))
    from unnest(array['later', 'sooner', 'for_ever', 'beyond', 'before']) as name
  $$,
  $$values (interval '2 min'), ('5 s'), ('24 h'), ('24 h'), ('5 s')$$,
  'Retry-After makes the wait longer, never shorter, and at most a day'
);

-- Limited (429) is no attempt, and pauses the receiver.
create function pg_temp.pause_of(host text)
returns interval language sql as $$
  select p.paused_until - clock_timestamp() from billing.pauses p where p.destination = host
$$;
reset role;
truncate billing.notifications;
select pg_temp.owe('tap_' || name, '{"attempts": 10, "last_error": "before"}')
from unnest(array['limited', 'limited_too', 'unsent']) as name;
set local role service_role;
select is(
  public.billing_settle_notifications(
    pg_temp.run(3),
    'slow',
    jsonb_build_array(
      jsonb_build_object(
        'id', (pg_temp.row_of('tap_limited')).id,
        'result', 'limited',
        'error', '429',
        'retry_after_seconds', 60
      ),
      jsonb_build_object(
        'id', (pg_temp.row_of('tap_limited_too')).id,
        'result', 'limited',
        'error', '429',
        'retry_after_seconds', 120
      ),
      jsonb_build_object('id', (pg_temp.row_of('tap_unsent')).id, 'result', 'unsent')
    )
  ),
  3,
  'limited and unsent notifications are settled'
);
select set_eq(
  $$
    select event_id, status, attempts, last_error, next_attempt_at = now() as is_due
    from billing.notifications
  $$,
  $$
    values
      ('tap_limited', 'pending', 9, '429', false),
      ('tap_limited_too', 'pending', 9, '429', false),
      ('tap_unsent', 'pending', 9, 'before', true)
  $$,
  'limited and unsent notifications count no attempt'
);
select ok(
  pg_temp.pause_of('slow') between interval '119 s' and interval '120 s',
  'a limited destination has the longest pause that it asked for'
);
select results_eq(
  $$
    select next_attempt_at = (select paused_until from billing.pauses where destination = 'slow')
    from billing.notifications
    where last_error = '429'
  $$,
  $$values (true), (true)$$,
  'limited notifications are due at the end of the pause'
);
select is(
  pg_temp.claim(3, 10, 'slow') || pg_temp.claim(3, 10, 'host'),
  'tap_unsent',
  'only for another destination is anything claimed in its pause'
);

select pg_temp.settle(3, 'tap_limited', '{"result": "limited", "retry_after_seconds": 1}', 'slow');
select ok(pg_temp.pause_of('slow') > interval '118 s', 'a pause is not shortened');

update billing.pauses set paused_until = now() where destination = 'slow';
update billing.notifications set next_attempt_at = now();
select is(pg_temp.claim(3, 1, 'slow') <> '', true, 'notifications are claimed after the pause');

select pg_temp.settle(
  3,
  'tap_limited',
  jsonb_build_object('result', 'limited', 'retry_after_seconds', seconds),
  name
)
from (
  values ('asks_nothing', null), ('asks_0', 0), ('asks_years', 253402300799)
) as a (name, seconds);
select results_eq(
  $$
    select date_trunc('second', pg_temp.pause_of('asks_' || name) + interval '0.5 s')
    from unnest(array['nothing', '0', 'years']) as name
  $$,
  $$values (interval '1 min'), ('1 s'), ('24 h')$$,
  'a pause is a minute by default, at least a second and at most a day'
);

reset role;
truncate billing.notifications;
select pg_temp.owe('tap_1'), pg_temp.owe('tap_2', '{"status": "dead"}');
set local role service_role;
select throws_ok(
  $$select pg_temp.settle(3, 'tap_1', '{"result": "delivered"}')$$,
  '23514',
  null,
  'an unknown result is refused'
);

select pg_temp.end_lease();
select is(
  pg_temp.settle(3, 'tap_1', '{"result": "sent"}'),
  1,
  'a late run settles if no other run has the queue'
);
select is(
  (select string_agg(status, ' ' order by event_id) from public.billing_notifications),
  'sent dead',
  'the API shows the results'
);

update public.billing_notifications
set status = 'pending', attempts = 0, next_attempt_at = now()
where event_id = 'tap_2';
select matches(
  pg_temp.claim(5, 10, 'other_host'),
  'tap_2',
  'a dead notification can be sent again'
);

-- Notifications that are not true, or no longer, are withdrawn.
reset role;
truncate billing.notifications, billing.subscriptions, billing.leases, billing.pauses,
  billing.grants;

create function pg_temp.subscribe(fields jsonb)
returns void language sql as $$
  select pg_temp.add('subscriptions', '{
    "id": "sub_1", "provider": "a", "account_id": "acc_1", "status": "active", "plan_id": "p"
  }' || fields)
$$;

create function pg_temp.told(kind text, record jsonb, fields jsonb default '{}')
returns text language plpgsql as $$
begin
  delete from billing.subscriptions;
  delete from billing.notifications;
  if record <> '{"none": true}' then
    perform pg_temp.subscribe(record);
  end if;
  perform pg_temp.owe('e', jsonb_build_object(
    'kind', kind,
    'occurred_at', now() - interval '1 day'
  ) || fields);

  perform public.billing_claim_notifications(pg_temp.run(9), 10, 'host');
  return (
    select coalesce(
      n.last_error,
      case when n.attempts = 0 and n.next_attempt_at > now() then 'waits' else n.status end
    )
    from billing.notifications n
  );
end;
$$;

create function pg_temp.ago(name text, hours integer)
returns jsonb language sql
return jsonb_build_object(name, now() - make_interval(hours => hours));

create function pg_temp.mark(name text, hours integer)
returns jsonb language sql
return jsonb_build_object(
  name,
  (extract(epoch from now() - make_interval(hours => hours)) * 4000000)::bigint
);

create function pg_temp.trial(hours integer)
returns jsonb language sql
return pg_temp.ago('trial_end', hours) || '{"provider_status": "trialing"}';

select is(
  pg_temp.told(kind, record, fields),
  coalesce(withdrawn, 'pending'),
  format('%s, if the record has %s', kind, record)
)
from (
  values
    ('payment_failed', '{}'::jsonb, '{}'::jsonb, null),
    ('payment_failed', pg_temp.ago('recovered_as_of', 23), '{}', 'The subscription is active again.'),
    ('payment_failed', pg_temp.ago('recovered_as_of', 24), '{}', null),
    ('payment_failed', '{"status": "canceled"}', '{}', 'The subscription has ended.'),
    ('action_required', '{"provider_status": "incomplete_expired"}', '{}', 'The subscription never began.'),
    ('trial_ending', pg_temp.trial(-9), pg_temp.ago('trial_end', -9), null),
    ('trial_ending', pg_temp.trial(-8), pg_temp.ago('trial_end', -9), 'The trial ends at another time.'),
    ('trial_ending', pg_temp.trial(0), pg_temp.ago('trial_end', 0), 'The trial has ended.'),
    ('trial_ending', '{"provider_status": "trialing"}', pg_temp.ago('trial_end', -9), 'The trial has ended.'),
    ('trial_ending', pg_temp.trial(-9) || '{"provider_status": "active"}', pg_temp.ago('trial_end', -9),
      'It is no trial any more.'),
    ('trial_ending', pg_temp.trial(-9) || '{"status": "canceled"}', pg_temp.ago('trial_end', -9),
      'The subscription has ended.'),
    ('recovered', '{}', pg_temp.ago('occurred_at', 72), null),
    ('recovered', '{}', pg_temp.ago('occurred_at', 73), 'It is more than three days ago.'),
    ('recovered', '{"status": "past_due"}', '{}', 'The subscription is not active any more.'),
    ('recovered', '{"none": true}', '{}', 'The subscription is not active any more.'),
    -- The event may have overtaken the update that it follows, until the record has an update as new.
    ('trial_ending', pg_temp.mark('changed_mark', 25), pg_temp.ago('trial_end', -9), 'waits'),
    ('trial_ending', pg_temp.mark('changed_mark', 24), pg_temp.ago('trial_end', -9), 'The trial has ended.'),
    ('trial_ending', pg_temp.mark('changed_mark', 25), pg_temp.ago('trial_end', 0), 'The trial has ended.'),
    ('trial_ending', pg_temp.mark('changed_mark', 25) || pg_temp.mark('canceled_mark', 23),
      pg_temp.ago('trial_end', -9), 'The trial has ended.'),
    ('ended', '{"status": "canceled"}', '{}', null),
    ('ended', '{}', '{}', 'The subscription goes on.')
) as c (kind, record, fields, withdrawn);

-- A notification of an end says whether the account still has access by something else.
create function pg_temp.claim_access()
returns jsonb language sql set role = service_role as $$
  update billing.notifications set next_attempt_at = now();
  select coalesce(jsonb_agg(c -> 'still_has_access'), '"withdrawn"')
  from public.billing_claim_notifications(pg_temp.run(9), 10, 'host') as c
$$;

create function pg_temp.access_beside(other jsonb, kind text default 'ended')
returns jsonb language plpgsql as $$
begin
  delete from billing.subscriptions;
  delete from billing.notifications;
  perform pg_temp.subscribe((case kind when 'ended' then '{"status": "canceled"}' else '{}' end)::jsonb);
  if other is not null then
    perform pg_temp.subscribe('{"id": "sub_2"}' || other);
  end if;
  perform pg_temp.owe('e', jsonb_build_object('kind', kind));
  return pg_temp.claim_access();
end;
$$;

select is(
  pg_temp.access_beside(other, kind),
  still,
  format('%s beside %s: %s', kind, other, still)
)
from (
  values
    ('ended', null::jsonb, '[false]'::jsonb),
    ('ended', '{}', '[true]'),
    ('ended', '{"account_id": "acc_2"}', '[false]'),
    ('recovered', '{}', '[null]')
) as c (kind, other, still);

select pg_temp.access_beside('{}');
update billing.subscriptions set status = 'canceled';
select pg_temp.settle(9, 'e', '{"result": "limited"}');
delete from billing.pauses;
select is(pg_temp.claim_access(), '[false]', 'a limited notification says what is true by then');

update billing.subscriptions set status = 'active' where id = 'sub_2';
select is(pg_temp.claim_access(), '[false]', 'an attempt fixes what a notification says');

update public.billing_notifications set attempts = 0;
select is(pg_temp.claim_access(), '[true]', 'a notification that is sent again says the same');

update billing.subscriptions set status = 'active';
select is(
  pg_temp.claim_access(),
  '"withdrawn"',
  'a subscription that is back has no end to tell of'
);

truncate billing.notifications;
delete from billing.subscriptions;
select pg_temp.owe('e' || i, jsonb_build_object(
  'kind', case when i < 1006 then 'recovered' else 'payment_failed' end,
  'next_attempt_at', now() - make_interval(secs => 1009 - i)
))
from generate_series(1, 1008) as i;
select is(pg_temp.claim(9, 2), '', 'a call checks at most a thousand notifications');
select ok(
  public.billing_release_lease('notifications', pg_temp.run(9), false),
  'a run that has only withdrawn goes on'
);
select is(pg_temp.claim(9, 2), 'e1006 e1007', 'withdrawn notifications hold up no other');
select ok(
  not public.billing_release_lease('notifications', pg_temp.run(9), false),
  'after that, the run ends'
);
select is(
  (select count(*) from billing.notifications where status = 'withdrawn' and attempts = 0),
  1005::bigint,
  'withdrawn notifications count no attempt'
);

select * from finish();
rollback;
