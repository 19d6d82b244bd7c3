/*
 * Alerts to the operator: which are due, how often, and what they say. Time passes by
 * moving all times back.
 */
begin;
select plan(41);
truncate billing.failed_events, billing.alerts, billing.leases, billing.pauses;

create function pg_temp.fail(
  event_id text,
  error_code text default 'event_invalid',
  error text default 'id is missing'
)
returns void language sql as $$
  select pg_temp.file(event_id, error_code, null, jsonb_build_object(
    'body', '{"id": "secret"}',
    'error', error,
    'type', 'invoice.payment_failed'
  ));
  -- The first retry of the schedule, if there is one, has failed.
  update billing.failed_events f
  set scheduled_retries = 1
  where f.event_id = fail.event_id and f.next_retry_at is not null
$$;

create function pg_temp.resolve(pattern text)
returns void language sql as $$
  update billing.failed_events
  set resolved_at = now(), resolution = 'applied'
  where event_id like pattern and resolved_at is null
$$;

create function pg_temp.pass(p_time interval)
returns void language sql as $$
  update billing.failed_events
  set
    first_failed_at = first_failed_at - p_time,
    last_failed_at = last_failed_at - p_time,
    resolved_at = resolved_at - p_time;
  update billing.alerts set
    alerted_at = alerted_at - p_time, opened_at = opened_at - p_time;
$$;

create function pg_temp.claim(called text[] default null)
returns jsonb language sql as $$
  select coalesce(jsonb_agg(to_jsonb(c)), '[]')
  from public.billing_claim_alerts(pg_temp.run(1), 'alerts', called) as c
$$;

-- Runs the worker once, with a receiver that answers `result`; a run that the schedule has woken
-- names the handlers that it calls. Returns the alerts that were due, such as
-- 'failure_opened event_invalid 1 of 3'.
create function pg_temp.wake(result text default 'sent', called text[] default null)
returns text language plpgsql as $$
declare
  alerts constant jsonb := pg_temp.claim(called);
begin
  perform public.billing_settle_alerts(pg_temp.run(1), 'alerts', (
    select coalesce(
      jsonb_agg(a || jsonb_build_object('result', result, 'retry_after_seconds', 90)),
      '[]'
    )
    from jsonb_array_elements(alerts) as a
  ));
  return (
    select coalesce(string_agg(concat_ws(
      ' ', a ->> 'kind', nullif(a #>> '{alert,error_code}', a ->> 'kind'),
      coalesce((a #>> '{alert,new}') || ' of ' || (a #>> '{alert,open}'), a #>> '{alert,resolved}'),
      a #>> '{alert,handlers}'
    ), ', ' order by a #>> '{alert,error_code}', a ->> 'kind'), '')
    from jsonb_array_elements(alerts) as a
  );
end;
$$;

create function pg_temp.start_again()
returns void language sql as $$
  truncate billing.failed_events, billing.alerts
$$;

select pg_temp.fail('tap_1', 'subscription_unknown', 'No subscription sub_1');
select pg_temp.pass('5 minutes');
select pg_temp.fail('tap_2', 'subscription_unknown', 'No subscription ' || repeat('x', 600));
select pg_temp.fail('tap_2', 'subscription_unknown', 'No subscription ' || repeat('x', 600));
select pg_temp.fail(
  'tap_3',
  'apply_failed',
  'Database call failed: 22P02: invalid input: "personal data"'
);
set local role service_role;
create temporary table claimed as select a from jsonb_array_elements(pg_temp.claim()) as a;
reset role;
select is(
  (select a - 'id' from claimed where a #>> '{alert,error_code}' = 'subscription_unknown'),
  jsonb_build_object(
    'kind', 'failure_opened',
    'created_at', now(),
    'alert', jsonb_build_object(
      'error_code', 'subscription_unknown',
      'error', 'No subscription ' || repeat('x', 484),
      'open', 2,
      'new', 2,
      'first_failed_at', now() - interval '5 minutes',
      'last_failed_at', now(),
      'provider', 'a',
      'event_id', 'tap_2',
      'event_type', 'invoice.payment_failed'
    )
  ),
  'an alert says how many failed with a code since when, and names the newest'
);
select ok(
  (select bool_and(not a ->> 'alert' ~ 'personal|secret') and count(*) = 2 from claimed),
  'each code has an alert, without payloads and values'
);
select is(
  (select jsonb_agg(a -> 'id' order by a -> 'id') from jsonb_array_elements(pg_temp.claim()) as a),
  (select jsonb_agg(a -> 'id' order by a -> 'id') from claimed),
  'an alert keeps its ID until it is settled'
);

select is(
  pg_temp.wake() || '; ' || pg_temp.wake(),
  'failure_opened apply_failed 1 of 1, failure_opened subscription_unknown 2 of 2; ',
  'until then it is due for the next run'
);

-- A run holds one queue for alerts and notifications.
select pg_temp.fail('tap_4');
select is_empty(
  $$
    select from public.billing_claim_alerts(pg_temp.run(2), 'alerts')
    union all
    select from public.billing_claim_notifications(pg_temp.run(2), 10, 'host')
  $$,
  'a second run gets neither'
);

create temporary table results as select jsonb_agg(
  a || '{"result": "sent"}'
) as results from jsonb_array_elements(pg_temp.claim()) as a;

select is(
  (
    select array_agg(public.billing_settle_alerts(pg_temp.run(n), 'alerts', results))
    from results, unnest('{2,1}'::integer[]) as n
  ),
  '{0,1}',
  'only the run with the queue settles alerts'
);

select pg_temp.pass('1 hour');
select pg_temp.fail('tap_5', 'subscription_unknown');
select ok(
  (
    select n -> 'id' <> c.a -> 'id'
    from jsonb_array_elements(pg_temp.claim()) as n
    join claimed c on c.a #> '{alert,error_code}' = n #> '{alert,error_code}'
  ),
  'the next alert of a code has another ID'
);

-- One an hour and code.
select pg_temp.start_again();
select pg_temp.fail('tap_1');
select is(
  pg_temp.wake(),
  'failure_opened event_invalid 1 of 1',
  'the first failure is reported at once'
);

select pg_temp.pass('10 minutes');
select pg_temp.fail('tap_' || i) from generate_series(2, 100) as i;
select pg_temp.fail('tap_other', 'subscription_unknown');
select is(
  pg_temp.wake(),
  'failure_opened subscription_unknown 1 of 1',
  'a failure with another code is reported within the hour'
);

select pg_temp.pass('49 minutes');
select is(pg_temp.wake(), '', 'no more failures of a code are reported for 59 minutes');

select pg_temp.pass('1 minute');
select is(
  pg_temp.wake(),
  'failure_opened event_invalid 99 of 100',
  'one alert counts the failures of an hour'
);

select pg_temp.pass('2 hours');
select pg_temp.fail('tap_1');
select is(pg_temp.wake(), '', 'a failure that fails again raises no alert');

select pg_temp.fail('tap_101');
select is(
  pg_temp.wake(),
  'failure_opened event_invalid 1 of 101',
  'a new failure is reported at once if the last alert is old'
);

-- Failures that count as new.
select pg_temp.pass('70 minutes');
select pg_temp.resolve('tap_10_');
select pg_temp.wake();
select pg_temp.fail('tap_100');
select is(
  pg_temp.wake(),
  'failure_opened event_invalid 1 of 100',
  'a failure that opens again is new'
);

select pg_temp.pass('2 hours');
select pg_temp.resolve('tap_1_');
select pg_temp.fail('tap_200');
select is(
  pg_temp.wake(),
  'failure_opened event_invalid 1 of 91',
  'a failure after others were resolved is new'
);

select pg_temp.pass('2 hours');
update billing.failed_events set error_code = 'event_invalid' where event_id = 'tap_other';
select is(
  pg_temp.wake(),
  'failure_opened event_invalid 1 of 92, failures_resolved subscription_unknown 0',
  'a failure that has got another code is new, and resolved for the old one'
);

-- The first retry is ahead.
select pg_temp.start_again();
select pg_temp.fail('tap_1', 'record_locked');
select pg_temp.file('tap_2', 'record_locked');
select pg_temp.wake();
select pg_temp.resolve('tap_1');
select pg_temp.pass('2 hours');
select pg_temp.file('tap_3', 'record_locked');
select is(pg_temp.wake(), '', 'until then, a failure raises no alert');

update billing.failed_events set scheduled_retries = 1 where event_id = 'tap_2';
select is(pg_temp.wake(), '', 'a failure that was counted raises none when that retry fails');

-- Resolved.
select pg_temp.start_again();
select pg_temp.fail('tap_' || i) from generate_series(1, 3) as i;
select pg_temp.fail('other', 'record_locked');
select pg_temp.wake();
select pg_temp.pass('20 minutes');
select pg_temp.resolve('tap_1');
select is(pg_temp.wake(), '', 'nothing is reported resolved while some are open');

select pg_temp.resolve('tap_2');
select pg_temp.resolve('tap_3');
select is(
  pg_temp.claim() #> '{0,alert}',
  jsonb_build_object(
    'error_code', 'event_invalid',
    'resolved', 3,
    'opened_at', now() - interval '20 minutes'
  ),
  'an alert counts the resolved failures once none is open'
);
select pg_temp.wake('failed');
select is(
  pg_temp.wake() || '; ' || pg_temp.wake(),
  'failures_resolved event_invalid 3; ',
  'that alert is due until it was sent'
);
select results_eq(
  $$select error_code, opened_at is null, reported from billing.alerts order by error_code$$,
  $$values ('event_invalid', true, 0), ('record_locked', false, 1)$$,
  'an open code stays open'
);

select pg_temp.pass('1 minute');
select pg_temp.fail('tap_4');
select is(pg_temp.wake(), '', 'a failure that opens again within the hour is not reported');

select pg_temp.resolve('tap_4');
select is(pg_temp.wake(), '', 'what was not reported is not reported resolved');

select pg_temp.fail('tap_5');
select pg_temp.pass('40 minutes');
select is(
  pg_temp.wake(),
  'failure_opened event_invalid 1 of 1',
  'a failure that is still open after the hour is reported'
);

select pg_temp.pass('2 hours');
select pg_temp.fail('tap_6');
select pg_temp.wake();
select is(
  (select opened_at from billing.alerts where error_code = 'event_invalid'),
  now() - interval '2 hours',
  'a code keeps the time of its first alert'
);

select pg_temp.resolve('%');
select is(
  pg_temp.wake(),
  'failures_resolved event_invalid 2, failures_resolved record_locked 1',
  'failures that were reported resolved are not counted again'
);

-- An alert that was not sent says what is true at the next run.
select pg_temp.start_again();
select pg_temp.fail('tap_1');
select pg_temp.wake('failed');

select pg_temp.fail('tap_2');
select is(
  pg_temp.wake('failed'),
  'failure_opened event_invalid 2 of 2',
  'the next alert counts what is open by then'
);

select pg_temp.resolve('tap_%');
select is(pg_temp.wake(), '', 'no alert is due if all are resolved before it was sent');

select pg_temp.fail('tap_3');
select pg_temp.wake('limited');
select is(pg_temp.wake(), '', 'a limited receiver gets no alerts');
select ok(
  (
    select paused_until - clock_timestamp() between interval '89 s' and interval '90 s'
    from billing.pauses
    where destination = 'alerts'
  ),
  'a limited receiver has the pause that it asked for'
);

update billing.pauses set paused_until = now();
select is(pg_temp.wake(), 'failure_opened event_invalid 1 of 1', 'an alert is due after the pause');

-- Handlers that no listed type calls.
select pg_temp.start_again();

create function billing.on_tap_b(provider text, event jsonb) returns void language sql as '';

create function billing.on_tap_a(provider text, event jsonb) returns void language sql as '';
-- These cannot be called, so they are no handlers.
create function billing.on_tap_c(event jsonb) returns void language sql as '';

create function billing.on_tap_d(provider text, event jsonb) returns void language sql as '';
revoke execute on function billing.on_tap_d from public;
select is(
  pg_temp.wake(called => '{on_tap_a,on_tap_b,on_tap_e}'),
  '',
  'no alert is due if all handlers are called'
);
select is_empty(
  $$select from public.billing_claim_alerts(pg_temp.run(1), 'alerts')$$,
  'a run that the schedule has not woken compares no handlers'
);

set local role service_role;
select is(
  pg_temp.wake('failed', '{}'),
  'handler_not_listed ["billing.on_tap_a", "billing.on_tap_b"]',
  'an alert names handlers that are not called'
);
select is(
  pg_temp.wake(called => '{on_tap_b}'),
  'handler_not_listed ["billing.on_tap_a"]',
  'that alert is due again if it was not sent'
);

reset role;
select pg_temp.pass('23 hours 59 minutes');
select is(pg_temp.wake(called => '{}'), '', 'no alert of handlers is due within a day');

select pg_temp.pass('1 minute');
select is(
  pg_temp.wake(called => '{on_tap_b}'),
  'handler_not_listed ["billing.on_tap_a"]',
  'an alert of handlers is due after a day'
);

select pg_temp.pass('23 hours 59 minutes');
select is(pg_temp.wake(called => '{}'), '', 'no alert of handlers is due for another day');

select pg_temp.fail('tap_h');
select is(
  pg_temp.wake(called => '{}'),
  'failure_opened event_invalid 1 of 1',
  'failures are reported beside handlers'
);

select pg_temp.start_again();
select pg_temp.fail('tap_1'), pg_temp.fail('tap_2');
select public.billing_settle_alerts(pg_temp.run(1), 'alerts', jsonb_build_array('{
  "kind": "failure_opened",
  "alert": {"error_code": "event_invalid", "open": 1},
  "result": "sent"
}'::jsonb || jsonb_build_object('created_at', now() - interval '1 s')));
select pg_temp.pass('1 hour');
select pg_temp.resolve('tap_1');
select is(
  pg_temp.wake(),
  'failure_opened event_invalid 1 of 1',
  'a failure since the claim of an alert is news'
);

select * from finish();
rollback;
