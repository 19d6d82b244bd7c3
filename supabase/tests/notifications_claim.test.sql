/*
 * claim_notifications: who gets what, for how long, and when it is given up.
 * That two workers at once never get the same row is shown by the integration
 * tests, which have more than one connection.
 */
begin;
select plan(34);
set local timezone = 'UTC';

-- The outbox is this file's alone until the rollback.
truncate public.notifications;

create function pg_temp.owe(p_event_id text, p_fields jsonb default '{}')
returns void
language sql
as $$
  insert into public.notifications
  select * from jsonb_populate_record(null::public.notifications, jsonb_build_object(
    'id', gen_random_uuid(), 'provider', 'a', 'event_id', p_event_id, 'account_id', 'acc_1',
    'subscription_id', 'tap_sub', 'status', 'pending', 'attempts', 0,
    'next_attempt_at', now(), 'created_at', now(), 'kind', 'payment_failed'
  ) || p_fields)
$$;

create function pg_temp.row_of(p_event_id text)
returns public.notifications
language sql
as $$
  select * from public.notifications where event_id = p_event_id
$$;

-- The events whose notifications are claimed, such as 'tap_1 tap_2'.
create function pg_temp.claim(p_limit integer default 100)
returns text
language sql
as $$
  select coalesce(string_agg(c.event_id, ' ' order by c.event_id), '')
  from public.claim_notifications(p_limit, 60, 'tap_host') as c
$$;

select is(
  public.notification_waits(),
  array[
    '5 seconds', '5 minutes', '30 minutes', '2 hours', '5 hours',
    '10 hours', '14 hours', '20 hours', '24 hours'
  ]::interval[],
  'the waits are those of the Standard Webhooks specification'
);

-- The limit, on a connection without cached plans, where the planner believes
-- that the table has one row.

select pg_temp.owe('tap_quiet', '{"status": "sent"}');
analyze public.notifications;
select pg_temp.owe('tap_' || n, jsonb_build_object('next_attempt_at', now() - interval '1 hour' + n * interval '1 second'))
from generate_series(11, 70) as n;
set local role service_role;
select is(
  pg_temp.claim(2), 'tap_11 tap_12',
  'the limit holds, and what has been due for longest comes first'
);
select is(
  (select count(*)::int from public.notifications where attempts > 0), 2,
  'no attempt is counted beyond the limit'
);
select is(pg_temp.claim(3), 'tap_13 tap_14 tap_15', 'the next claim goes on from there');
select is(
  (select count(*)::int from public.claim_notifications(100, 60, 'tap_host')), 55,
  'a limit beyond what is due takes all of it'
);

-- A claim.

reset role;
truncate public.notifications;
set local role service_role;
select is(pg_temp.claim(), '', 'of an empty outbox nothing is claimed');

reset role;
select pg_temp.owe('tap_1', '{
  "invoice_id": "in_1", "hosted_invoice_url": "https://pay.example.com/in_1", "amount_due": 1234,
  "currency": "eur", "attempt_count": 2, "next_payment_attempt": "2026-05-03T10:00:00Z"
}');
set local role service_role;

create temporary table claimed as
select to_jsonb(c) as fields from public.claim_notifications(1, 90, 'tap_host') as c;

select is(
  (select fields from claimed),
  (
    select jsonb_build_object(
      'id', n.id, 'lease_id', n.lease_id, 'attempt', 1, 'provider', 'a', 'event_id', 'tap_1',
      'account_id', 'acc_1', 'subscription_id', 'tap_sub', 'invoice_id', 'in_1', 'created_at', now(),
      'hosted_invoice_url', 'https://pay.example.com/in_1', 'amount_due', 1234, 'currency', 'eur',
      'attempt_count', 2, 'next_payment_attempt', '2026-05-03T10:00:00+00:00',
      'kind', 'payment_failed', 'alert', null, 'wait_ms', 0
    )
    from pg_temp.row_of('tap_1') as n
  ),
  'a claim hands out what the notification says, with its lease and the number of the attempt'
);
select is(
  (
    select jsonb_build_array(
      n.status, n.attempts, n.last_error, n.sent_at,
      n.next_attempt_at - clock_timestamp() between interval '89 s' and interval '90 s'
    )
    from pg_temp.row_of('tap_1') as n
  ),
  jsonb_build_array('pending', 1, null, null, true),
  'a claim counts the attempt and holds the row until the lease ends'
);
select isnt(
  (select n.lease_id from pg_temp.row_of('tap_1') as n), null, 'a claim has a lease'
);
select is(pg_temp.claim(), '', 'what is leased is claimed by nobody else');

-- A lease that ends.

update public.notifications set next_attempt_at = now();
select is(pg_temp.claim(), 'tap_1', 'when the lease has ended, the row is due again');
select is(
  (select n.attempts from pg_temp.row_of('tap_1') as n), 2,
  'the second claim is the second attempt'
);
select isnt(
  (select n.lease_id::text from pg_temp.row_of('tap_1') as n),
  (select fields ->> 'lease_id' from claimed),
  'the second claim has a lease of its own'
);

-- What is not due.

reset role;
truncate public.notifications;
select pg_temp.owe('tap_later', jsonb_build_object('next_attempt_at', now() + interval '1 minute'));
select pg_temp.owe('tap_sent', '{"status": "sent"}');
select pg_temp.owe('tap_dead', '{"status": "dead"}');
select pg_temp.owe('tap_undeliverable', '{"status": "undeliverable"}');
set local role service_role;
select is(pg_temp.claim(), '', 'what is not due yet, or settled, is not claimed');

-- The last attempt.

reset role;
truncate public.notifications;
select pg_temp.owe('tap_ninth', '{"attempts": 9}');
select pg_temp.owe('tap_tenth', '{"attempts": 10}');
select pg_temp.owe('tap_tenth_before', '{"attempts": 10, "last_error": "the receiver answered 500"}');
select pg_temp.owe('tap_tenth_leased', jsonb_build_object(
  'attempts', 10, 'next_attempt_at', now() + interval '1 second'
));
set local role service_role;
select is(pg_temp.claim(), 'tap_ninth', 'there are ten attempts, and no eleventh');
select is(
  (select jsonb_build_array(n.status, n.attempts, n.last_error) from pg_temp.row_of('tap_tenth') as n),
  '["dead", 10, "the worker of the last attempt did not report a result"]',
  'when the lease of the last attempt has ended, the notification is dead'
);
select is(
  (select n.last_error from pg_temp.row_of('tap_tenth_before') as n),
  'the receiver answered 500; the worker of the last attempt did not report a result',
  'what the attempts before it met with is kept'
);
select is(
  (select n.status from pg_temp.row_of('tap_tenth_leased') as n), 'pending',
  'while the lease of the last attempt runs, the notification is not given up'
);
select is(
  (select jsonb_build_array(n.status, n.attempts) from pg_temp.row_of('tap_ninth') as n),
  '["pending", 10]',
  'the tenth attempt is under way'
);

-- A receiver with a limit: two a second, 10 % wider apart, over all claims.

reset role;
truncate public.notifications, public.notification_pace;
select pg_temp.owe('tap_' || n, jsonb_build_object('next_attempt_at', now() - interval '1 hour' + n * interval '1 second'))
from generate_series(11, 99) as n;
set local role service_role;
create temporary table claims (batch integer, event_id text, wait_ms integer);
create temporary view paced as
select c.*, n.next_attempt_at - interval '60 s' as slot
from claims c join public.notifications n using (event_id);
create function pg_temp.claim_paced(p_batch integer, p_destination text default 'tap_host')
returns void
language sql
as $$
  insert into claims
  select p_batch, c.event_id, c.wait_ms from public.claim_notifications(4, 60, p_destination, 2) as c
$$;
select pg_temp.claim_paced(1);
select pg_temp.claim_paced(2);
select results_eq(
  $$select event_id, round(1000 * extract(epoch from slot - min(slot) over ()))::integer from paced order by slot$$,
  $$select 'tap_' || 10 + n, 550 * (n - 1) from generate_series(1, 8) as n$$,
  'two claims are spaced like one, oldest first'
);
select results_eq(
  $$select wait_ms / 500 from paced where batch = 1 order by slot$$, array[0, 1, 2, 3],
  'each row says how long to wait for its turn'
);
select ok(
  (select min(wait_ms) between 2000 and 2200 from paced where batch = 2),
  'and that of the second claim waits for the first'
);
select ok(
  (select bool_and(slot > now() + interval '1 s') from paced where wait_ms > 1500),
  'the lease begins when it is to be sent'
);
select pg_temp.claim_paced(3, 'tap_other_host');
select is((select min(wait_ms) from paced where batch = 3), 0, 'another receiver has a pace of its own');

update public.notification_pace set next_send_at = clock_timestamp() + interval '19 s' where destination = 'tap_host';
select pg_temp.claim_paced(4);
select is((select count(*)::int from paced where batch = 4), 4, 'it is handed out up to 20 s ahead');
update public.notification_pace set next_send_at = clock_timestamp() + interval '21 s' where destination = 'tap_host';
select pg_temp.claim_paced(5);
select is((select count(*)::int from paced where batch = 5), 0, 'and no further');
update public.notification_pace set next_send_at = clock_timestamp() - interval '1 hour' where destination = 'tap_host';
select pg_temp.claim_paced(6);
select is((select max(wait_ms) / 500 from paced where batch = 6), 3, 'time that was not used is not made up for');

-- Due by the time at which it would be sent.

update public.notifications set next_attempt_at = now() + interval '1 day';
update public.notifications set next_attempt_at = clock_timestamp() + interval '3 s' where event_id = 'tap_99';
update public.notification_pace set next_send_at = clock_timestamp() + interval '2 s' where destination = 'tap_host';
select pg_temp.claim_paced(7);
select is((select count(*)::int from paced where batch = 7), 0, 'what is not due by its turn is not claimed');
update public.notification_pace set next_send_at = clock_timestamp() + interval '4 s' where destination = 'tap_host';
select pg_temp.claim_paced(8);
select is((select count(*)::int from paced where batch = 8), 1, 'what is due by then is');

update public.notifications set next_attempt_at = now() + interval '1 day';
update public.notifications set next_attempt_at = clock_timestamp() + interval '3 s', lease_id = gen_random_uuid()
where event_id = 'tap_98';
update public.notification_pace set next_send_at = clock_timestamp() + interval '4 s' where destination = 'tap_host';
select pg_temp.claim_paced(9);
select is(
  (select count(*)::int from paced where batch = 9), 0, 'what another worker has is not claimed before its lease ends'
);

-- Alerts, which have a receiver of their own.

reset role;
truncate public.notifications, public.notification_pace;
select pg_temp.owe('tap_' || n) from generate_series(1, 5000) as n;
insert into public.notifications (kind, alert, attempts)
values
  ('failure_opened', '{"error_code": "event_invalid"}', 0),
  ('failure_opened', '{"error_code": "internal_error"}', 10);
analyze public.notifications;
insert into public.notification_pace values ('tap_host', now() + interval '1 day');
set local role service_role;
create temporary view reads as
select seq_tup_read + idx_tup_fetch as rows from pg_stat_xact_user_tables where relid = 'public.notifications'::regclass;
create temporary table before as select rows from reads;
select results_eq(
  $$select kind, alert from public.claim_notifications(100, 60, 'tap_alerts', p_alerts => true)$$,
  $$values ('failure_opened', '{"error_code": "event_invalid"}'::jsonb)$$,
  'alerts are claimed by themselves, though the other receiver asked for a pause'
);
select cmp_ok(
  (select r.rows - b.rows from reads r, before b), '<', 100::bigint,
  'and the notifications that wait for it are not read'
);
select is(
  (select status from public.notifications where alert ->> 'error_code' = 'internal_error'), 'dead',
  'an alert is given up like the others'
);
select is(
  (select count(*)::int from public.claim_notifications(9999, 60, 'tap_new_host')), 5000,
  'without asking for alerts, none is claimed'
);

select * from finish();
rollback;
