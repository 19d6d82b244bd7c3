/*
 * retry_failed_event and retry_failed_events: what a person asks for in the
 * SQL editor, and what the answer says.
 */
begin;
select plan(38);

create function pg_temp.file(p_provider text, p_event_id text, p_type text, p_error_code text, p_last_failed_at timestamptz)
returns void
language sql
as $$
  select public.record_failed_event(p_provider, p_event_id, '{"n": 1}', 'text', p_error_code, 'Failed', p_type);
  update public.failed_events set last_failed_at = p_last_failed_at
  where provider = p_provider and event_id = p_event_id
$$;

-- What a retry was asked for.
create function pg_temp.requested()
returns text
language sql
as $$
  select string_agg(provider || ' ' || event_id, ', ' order by event_id, provider)
  from public.failed_events where retry_requested_at is not null
$$;

create function pg_temp.forget()
returns void
language sql
as $$
  update public.failed_events set retry_requested_at = null
$$;

select pg_temp.file(f.provider, f.event_id, f.type, f.error_code, f.failed_at)
from (
  values
    ('a', 'tap_1', 'customer.subscription.created', 'event_invalid', '2027-01-01T10:00:00Z'::timestamptz),
    ('a', 'tap_2', 'customer.subscription.updated', 'subscription_unknown', '2027-01-01T11:00:00Z'),
    ('a', 'tap_3', 'invoice.payment_failed', 'subscription_unknown', '2027-01-01T12:00:00Z'),
    ('a', 'tap_4', null, 'body_not_json', '2027-01-01T13:00:00Z'),
    ('a', 'tap_5', 'invoice.payment_failed', 'apply_failed', '2027-01-01T14:00:00Z'),
    ('b', 'tap_5', 'invoice.payment_failed', 'apply_failed', '2027-01-01T14:00:00Z'),
    ('a', 'tap_6', 'invoice.payment_failed', 'apply_failed', '2027-01-01T15:00:00Z'),
    ('a', 'tap_7', 'invoice.payment_failed', 'apply_failed', '2027-01-01T15:00:00Z'),
    ('b', 'tap_7', 'invoice.payment_failed', 'apply_failed', '2027-01-01T15:00:00Z'),
    ('a', 'tap_8', 'invoice.payment_failed', 'apply_failed', '2027-01-01T16:00:00Z')
) as f (provider, event_id, type, error_code, failed_at);
update public.failed_events set resolved_at = now(), resolution = 'applied'
where event_id = 'tap_6' or (event_id = 'tap_7' and provider = 'a');
update public.failed_events set payload = null where event_id = 'tap_8';

-- One event.

select throws_ok(
  $$select public.retry_failed_event('tap_none')$$, 'P0001', 'No failed event has the id tap_none.',
  'an id that never failed raises an error'
);
select throws_ok(
  $$select public.retry_failed_event('')$$, 'P0001', 'No failed event has the id .',
  'so does an empty id'
);
select throws_ok(
  $$select public.retry_failed_event(null)$$, 'P0001', null,
  'and no id at all'
);
select throws_ok(
  $$select public.retry_failed_event('<event id>')$$, 'P0001', 'No failed event has the id <event id>.',
  'and a placeholder that nobody replaced'
);
select is(pg_temp.requested(), null, 'none of these asks for anything');

select matches(
  public.retry_failed_event('tap_1'), '^Retry requested: 1\. The worker retries it at its next run\. See: select ',
  'an open failure is asked for, and the answer says what happens next'
);
select is(pg_temp.requested(), 'a tap_1', 'its row has the request, and no other');
select is(
  (select jsonb_build_array(attempts, resolved_at, error_code, retry_leased_until) from public.failed_events where event_id = 'tap_1'),
  '[1, null, "event_invalid", null]',
  'asking is no attempt and settles nothing'
);
update public.failed_events set retry_requested_at = '2027-01-01T00:00:00Z' where event_id = 'tap_1';
select matches(public.retry_failed_event('tap_1'), '^Retry requested: 1\.', 'it may be asked for again');
select is(
  (select retry_requested_at from public.failed_events where event_id = 'tap_1'), '2027-01-01T00:00:00Z'::timestamptz,
  'and stays one request, as old as the first'
);
select pg_temp.forget();
select throws_ok(
  $$select public.retry_failed_event('tap_5')$$, 'P0001',
  'Providers a and b both have a failed event with the id tap_5: add of_provider.',
  'where both providers have an open failure of one id, one has to be named'
);
select is(pg_temp.requested(), null, 'neither is asked for');
select matches(
  public.retry_failed_event('tap_5', of_provider => 'b'), '^Retry requested: 1\.', 'the one that is named is asked for'
);
select is(pg_temp.requested(), 'b tap_5', 'and no other');
select throws_ok(
  $$select public.retry_failed_event('tap_1', of_provider => 'b')$$, 'P0001', 'No failed event has the id tap_1 (provider b).',
  'a provider that has none of that id raises an error'
);
select pg_temp.forget();
select is(
  public.retry_failed_event('tap_6'), 'It is already resolved: nothing to retry.',
  'a resolved event is answered with that'
);
select matches(
  public.retry_failed_event('tap_7'), '^Retry requested: 1\.',
  'of one id, resolved for one provider, the other''s is asked for'
);
select is(pg_temp.requested(), 'b tap_7', 'resolved rows have no request');
select throws_ok(
  $$select public.retry_failed_event('tap_8')$$, 'P0001', 'Cannot retry tap_8: its payload was pruned.',
  'an event whose payload is gone raises an error that says so'
);
select pg_temp.forget();

-- Many.

select matches(public.retry_failed_events(), '^Retry requested: 7\.', 'without conditions all that is open is asked for');
select is(
  pg_temp.requested(), 'a tap_1, a tap_2, a tap_3, a tap_4, a tap_5, b tap_5, b tap_7',
  'but nothing that is resolved or has no payload'
);
select pg_temp.forget();

select is(
  public.retry_failed_events(of_type => 'customer.subscription.deleted'), 'No open failure matches: nothing to retry.',
  'where none fits the answer says so'
);
select is(pg_temp.requested(), null, 'and nothing is asked for');

create function pg_temp.asked(p_condition text)
returns text
language plpgsql
as $$
declare
  requested text;
begin
  perform pg_temp.forget();
  execute format('select public.retry_failed_events(%s)', p_condition);
  return pg_temp.requested();
end;
$$;
select is(pg_temp.asked(c.condition), c.requested, c.meaning)
from (
  values
    ($$of_type => 'invoice.payment_failed'$$, 'a tap_3, a tap_5, b tap_5, b tap_7', 'by type'),
    ($$of_error_code => 'subscription_unknown'$$, 'a tap_2, a tap_3', 'by error code'),
    (
      $$of_type => 'invoice.payment_failed', of_error_code => 'subscription_unknown'$$, 'a tap_3',
      'by both at once'
    ),
    ($$failed_since => '2027-01-01T14:00:00Z'$$, 'a tap_5, b tap_5, b tap_7', 'since a time, which belongs to it'),
    ($$failed_until => '2027-01-01T11:00:00Z'$$, 'a tap_1', 'until a time, which does not'),
    (
      $$failed_since => '2027-01-01T11:00:00Z', failed_until => '2027-01-01T13:00:00Z'$$, 'a tap_2, a tap_3',
      'within a time'
    ),
    ($$of_type => null, of_error_code => 'body_not_json'$$, 'a tap_4', 'null is no condition'),
    ($$failed_since => 'infinity'$$, null, 'a time that excludes all')
) as c (condition, requested, meaning);

select is(
  (select count(*)::int from public.failed_events where resolved_at is not null and retry_requested_at is not null), 0,
  'no call has asked for what is resolved'
);

-- What ends a request.

select pg_temp.forget();
select public.retry_failed_event('tap_2');
select is(
  (select outcome from public.apply_billing_events('[{
    "provider": "a", "event_id": "tap_2", "type": "customer.subscription.created", "subscription_id": "tap_sub",
    "account_id": "acc_1", "plan_id": "plan_1", "current_period_end": "2027-02-01T00:00:00Z"
  }]')),
  'applied', 'the provider delivers the event again before the worker comes'
);
select is(pg_temp.requested(), null, 'there is nothing left to retry');
select is(
  (select resolution from public.failed_events where event_id = 'tap_2'), 'applied',
  'the row says that the event was applied'
);
select public.retry_failed_event('tap_3');
select public.record_failed_event('a', 'tap_3', '{"n": 1}', 'text', 'apply_failed', 'Failed', 'invoice.payment_failed');
select is(pg_temp.requested(), 'a tap_3', 'a delivery that fails meanwhile leaves the request');

-- Who may ask.

select is(
  (select count(*)::int from unnest(array['anon', 'authenticated']) as r (name)
    where has_function_privilege(r.name, 'public.retry_failed_event(text, text)', 'execute')
      or has_function_privilege(r.name, 'public.retry_failed_events(text, text, timestamptz, timestamptz)', 'execute')),
  0, 'no user asks through the API, only the secret key does'
);
select function_privs_are(
  'public', 'retry_failed_event', array['text', 'text'], 'postgres', array['EXECUTE'], 'the SQL editor''s role may ask'
);

select * from finish();
rollback;
