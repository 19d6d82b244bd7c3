/*
 * open_alerts: which alerts are written, how often, and what they say. Time
 * passes by moving all times back.
 */
begin;
select plan(50);
set local timezone = 'UTC';

-- What other tests have left would be reported.
truncate public.failed_events, public.notifications, public.failure_alerts, public.notification_pace;

create function pg_temp.fail(p_event_id text, p_error_code text default 'event_invalid', p_error text default 'id is missing')
returns void
language sql
as $$
  select public.record_failed_event(
    'a', p_event_id, jsonb_build_object('id', p_event_id)::text, 'text', p_error_code, p_error, 'invoice.payment_failed'
  )
$$;

create function pg_temp.resolve(p_event_id text)
returns void
language sql
as $$
  update public.failed_events set resolved_at = now(), resolution = 'applied' where event_id like p_event_id
$$;

create function pg_temp.pass(p_time interval)
returns void
language sql
as $$
  update public.failed_events set
    first_failed_at = first_failed_at - p_time,
    last_failed_at = last_failed_at - p_time,
    resolved_at = resolved_at - p_time;
  update public.notifications set
    created_at = created_at - p_time,
    next_attempt_at = next_attempt_at - p_time,
    sent_at = sent_at - p_time;
  update public.failure_alerts set
    alerted_at = alerted_at - p_time,
    opened_at = opened_at - p_time,
    reported_until = reported_until - p_time;
$$;

-- Such as 'failure_opened event_invalid 1 of 3' for each alert.
create function pg_temp.describe(p_kind text, p_alert jsonb)
returns text
language sql
as $$
  select concat_ws(
    ' ', p_kind, p_alert ->> 'error_code',
    coalesce((p_alert ->> 'new') || ' of ' || (p_alert ->> 'open'), p_alert ->> 'resolved')
  )
$$;

-- One wake of the worker, as it calls the functions: what it sends, and the
-- receiver answers so. With null, the worker dies before it sends anything.
create function pg_temp.wake(p_result text default 'sent')
returns text
language plpgsql
as $$
declare
  claims jsonb;
begin
  perform public.open_alerts();
  select coalesce(jsonb_agg(to_jsonb(c)), '[]') into claims
  from public.claim_notifications(100, 60, 'tap_alerts', p_alerts => true) as c;
  if p_result is not null then
    perform public.settle_notifications(
      (
        select jsonb_agg(jsonb_build_object('id', c -> 'id', 'lease_id', c -> 'lease_id', 'result', p_result, 'error', 'no'))
        from jsonb_array_elements(claims) as c
      ),
      'tap_alerts'
    );
  end if;
  return (
    select coalesce(string_agg(d.what, ', ' order by d.what collate "C"), '')
    from jsonb_array_elements(claims) as c, pg_temp.describe(c ->> 'kind', c -> 'alert') as d (what)
  );
end;
$$;

create function pg_temp.pending()
returns text
language sql
as $$
  select coalesce(string_agg(pg_temp.describe(n.kind, n.alert), ', ' order by n.kind), '')
  from public.notifications n
  where n.status = 'pending' and n.kind <> 'payment_failed'
$$;

create function pg_temp.start_again()
returns void
language sql
as $$
  delete from public.failed_events;
  delete from public.notifications;
  delete from public.failure_alerts;
  delete from public.notification_pace;
$$;

-- From here on with the worker's rights, except where time passes.
grant create, usage on schema public to service_role;
select is(pg_temp.wake(), '', 'without failures there is no alert');

-- What it says.

select pg_temp.fail('tap_1', 'subscription_unknown', 'No subscription sub_1');
select pg_temp.pass('5 minutes');
select pg_temp.fail('tap_2', 'subscription_unknown', 'No subscription sub_2');
select pg_temp.fail('tap_2', 'subscription_unknown', 'No subscription sub_2');
select pg_temp.fail('tap_3');
set local role service_role;
select is(public.open_alerts(), 2, 'each error code has an alert of its own');
reset role;
select is(
  (select alert from public.notifications where alert ->> 'error_code' = 'subscription_unknown'),
  jsonb_build_object(
    'error_code', 'subscription_unknown',
    'error', 'No subscription sub_2',
    'open', 2,
    'new', 2,
    'first_failed_at', now() - interval '5 minutes',
    'last_failed_at', now(),
    'provider', 'a',
    'event_id', 'tap_2',
    'event_type', 'invoice.payment_failed'
  ),
  'it says how many, since when, and names the newest event'
);
select is(
  (select jsonb_agg(distinct jsonb_build_array(kind, status, provider, account_id, attempts)) from public.notifications),
  '[["failure_opened", "pending", null, null, 0]]',
  'it is a row of the outbox, of no account'
);
select is(public.open_alerts(), 0, 'what was reported is not reported again');
select is(
  (select count(*)::int from public.claim_notifications(100, 60, 'tap_accounts')), 0,
  'a worker that asks for notifications to accounts, as older ones do, gets no alert'
);
select is(
  pg_temp.wake(), 'failure_opened event_invalid 1 of 1, failure_opened subscription_unknown 2 of 2',
  'the alerts are claimed as alerts'
);
insert into public.notifications (provider, event_id, account_id, subscription_id) values ('a', 'tap_9', 'acc_1', 'sub_1');
select is(pg_temp.wake(), '', 'and notifications to accounts are not');
select is(
  (select count(*)::int from public.claim_notifications(100, 60, 'tap_accounts')), 1, 'which go to accounts as before'
);

-- One an hour.

select pg_temp.start_again();
select pg_temp.fail('tap_1');
select is(pg_temp.wake(), 'failure_opened event_invalid 1 of 1', 'the first failure is reported at once');
select pg_temp.pass('10 minutes');
select pg_temp.fail('tap_' || i) from generate_series(2, 100) as i;
select is(pg_temp.wake(), '', 'those after it are not, within the hour');
select pg_temp.fail('tap_other', 'subscription_unknown');
select is(pg_temp.wake(), 'failure_opened subscription_unknown 1 of 1', 'those with another error code are');
select pg_temp.pass('49 minutes');
select is(pg_temp.wake(), '', 'nor after 59 minutes');
select pg_temp.pass('1 minute');
select is(pg_temp.wake(), 'failure_opened event_invalid 99 of 100', 'after the hour they are, in one alert that counts them');
select pg_temp.pass('2 hours');
select is(pg_temp.wake(), '', 'without new failures there is no other alert, though they stay open');
select pg_temp.fail('tap_1');
select is(pg_temp.wake(), '', 'nor if one fails again');
select pg_temp.fail('tap_101');
select is(pg_temp.wake(), 'failure_opened event_invalid 1 of 101', 'a new one is reported at once, if the last alert is old');

-- What counts as new.

select pg_temp.pass('10 minutes');
select pg_temp.fail('tap_102');
select pg_temp.wake();
select pg_temp.resolve('tap_102');
select pg_temp.wake();
select pg_temp.pass('1 hour');
select is(pg_temp.wake(), '', 'what opens and is resolved within the hour is not reported');
select pg_temp.resolve('tap_10_');
select pg_temp.wake();
select pg_temp.fail('tap_100');
select is(pg_temp.wake(), 'failure_opened event_invalid 1 of 100', 'what opens again is new');
select pg_temp.pass('2 hours');
select pg_temp.resolve('tap_1_');
select pg_temp.fail('tap_200');
select is(
  pg_temp.wake(), 'failure_opened event_invalid 1 of 91',
  'one is new, although others were resolved since the last wake'
);
select pg_temp.pass('2 hours');
update public.failed_events set error_code = 'event_invalid' where event_id = 'tap_other';
select is(
  pg_temp.wake(), 'failure_opened event_invalid 1 of 92, failures_resolved subscription_unknown 0',
  'so is what has got another error code, and no failure with the old one is left'
);

-- Resolved.

select pg_temp.start_again();
select pg_temp.fail('tap_' || i) from generate_series(1, 3) as i;
select pg_temp.wake();
select pg_temp.pass('20 minutes');
select pg_temp.resolve('tap_1');
select is(pg_temp.wake(), '', 'nothing is said while some are open');
select pg_temp.resolve('tap_%');
select is(public.open_alerts(), 1, 'when none is open any more, it is said once');
select is(
  (select alert from public.notifications where kind = 'failures_resolved'),
  jsonb_build_object('error_code', 'event_invalid', 'resolved', 3, 'opened_at', now() - interval '20 minutes'),
  'with how many were resolved, and since when they were reported'
);
select is(pg_temp.wake(), 'failures_resolved event_invalid 3', 'it is sent like the other');
select is(pg_temp.wake(), '', 'and not again');

-- Failures that come and go.

select pg_temp.pass('1 minute');
select pg_temp.fail('tap_4');
select is(pg_temp.wake(), '', 'what opens again within the hour is not reported');
select pg_temp.resolve('tap_4');
select is(pg_temp.wake(), '', 'and then nobody is told that it is resolved');
select pg_temp.fail('tap_5');
select pg_temp.pass('40 minutes');
select is(pg_temp.wake(), 'failure_opened event_invalid 1 of 1', 'if it is still open after the hour, it is reported');
select pg_temp.fail('tap_6', 'record_locked');
select pg_temp.resolve('tap_6');
select is(pg_temp.wake(), '', 'what is resolved before the first wake is not reported');

-- The hour begins when an alert was sent, if that was later.

select pg_temp.start_again();
select pg_temp.fail('tap_1');
select pg_temp.wake('failed');
select pg_temp.fail('tap_2');
select pg_temp.pass('70 minutes');
select is(pg_temp.wake(), 'failure_opened event_invalid 1 of 1', 'an alert that could not be sent is sent as it was');
select is(pg_temp.wake(), '', 'it is the only one on its way');
select pg_temp.pass('59 minutes');
select is(pg_temp.wake(), '', 'the next one is not written within an hour of that');
select pg_temp.pass('1 minute');
select is(pg_temp.wake(), 'failure_opened event_invalid 1 of 2', 'but after it');
update public.notifications set status = 'sent', created_at = created_at - interval '100 days' where kind <> 'payment_failed';
select is((select notifications from public.prune_billing_tables()), 2::bigint, 'the rows can be pruned');
select pg_temp.fail('tap_3');
select is(pg_temp.wake(), '', 'and the hour counts all the same');

-- What is no longer true is withdrawn.

select pg_temp.start_again();
select pg_temp.fail('tap_1');
select public.open_alerts();
select pg_temp.resolve('tap_1');
select is(pg_temp.wake(), '', 'what is resolved before it was sent is not sent, and nothing is said of it');
select is((select string_agg(status, ' ') from public.notifications), 'withdrawn', 'it is withdrawn');
select pg_temp.pass('1 minute');
select pg_temp.fail('tap_2');
select is(pg_temp.wake('failed'), 'failure_opened event_invalid 1 of 1', 'and there is no hour to wait');
select pg_temp.resolve('tap_2');
select is(
  pg_temp.wake('failed'), 'failures_resolved event_invalid 1',
  'if an attempt failed, it may have arrived: it is withdrawn, and taken back'
);
select pg_temp.fail('tap_3');
select is(pg_temp.wake(), '', 'what is open again is no longer resolved');
select pg_temp.resolve('tap_3');
select is(pg_temp.wake(), 'failures_resolved event_invalid 2', 'until it is');

-- Not while it is being sent.

select pg_temp.start_again();
select pg_temp.fail('tap_1');
select is(pg_temp.wake(null), 'failure_opened event_invalid 1 of 1', 'a worker has an alert');
select pg_temp.resolve('tap_1');
select is(public.open_alerts()::text || pg_temp.pending(), '0failure_opened event_invalid 1 of 1', 'it is left alone until the lease ends');
select pg_temp.pass('2 minutes');
select is(pg_temp.wake(), 'failures_resolved event_invalid 1', 'then it is withdrawn');
select pg_temp.pass('2 hours');
select pg_temp.fail('tap_2');
select pg_temp.wake();
update public.notifications set status = 'pending', attempts = 0, next_attempt_at = now() where status = 'withdrawn';
select pg_temp.resolve('tap_2');
select is(pg_temp.wake(), 'failures_resolved event_invalid 1', 'so is an old one that somebody wants to send again');

-- Several old ones that somebody wants to send again (docs/runbook.md).

select pg_temp.start_again();
select pg_temp.fail('tap_1');
select pg_temp.wake('dead');
select pg_temp.pass('2 hours');
select pg_temp.fail('tap_2');
select pg_temp.wake('dead');
update public.notifications set status = 'pending', attempts = 0, next_attempt_at = now() where status = 'dead';
select pg_temp.resolve('tap_%');
select is(pg_temp.wake('dead'), 'failures_resolved event_invalid 2', 'all of them are withdrawn, and taken back');
select is(
  (select string_agg(n.kind || ' ' || n.status, ', ' order by n.created_at, n.kind collate "C") from public.notifications n),
  'failure_opened withdrawn, failure_opened withdrawn, failures_resolved dead',
  'none of them is left to be sent'
);

-- What an alert may say.

select pg_temp.fail('tap_1', 'apply_failed', 'Database call failed: 22P02: invalid input: "personal data"');
select public.open_alerts();
select is(
  (select alert ? 'error' from public.notifications where alert ->> 'error_code' = 'apply_failed'), false,
  'the message of a database that refused data is left out, since it may repeat the data'
);
select ok(
  (select bool_and(not alert::text like '%personal%') from public.notifications where alert is not null),
  'of the payload nothing is said'
);

select * from finish();
rollback;
