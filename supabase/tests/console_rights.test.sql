/*
 * What the console does through the API, as service_role: the same functions as in
 * the SQL editor, whether or not it may use what wakes the worker.
 */
begin;
select plan(9);

select public.record_failed_event('a', 'tap_1', '{"id": "tap_1"}', 'text', 'event_invalid', 'Failed');
select public.record_failed_event('a', 'tap_2', '{"id": "tap_2"}', 'text', 'event_invalid', 'Failed');

set local role service_role;
select matches(
  public.retry_failed_event('tap_1', of_provider => 'a'), '^Retry requested: 1\. The worker retries it at its next run\.',
  'service_role requests a retry'
);
select matches(
  public.retry_failed_events(of_error_code => 'event_invalid'), '^Retry requested: 2\.',
  'and that of all that match'
);
select lives_ok(
  $$select public.resolve_failed_event('tap_2', 'a test', 'somebody', of_provider => 'a')$$,
  'and resolves by hand'
);
select lives_ok(
  $$update public.failed_events set payload = '{"id": "tap_1", "n": 12345678901234567890}'
    where provider = 'a' and event_id = 'tap_1'$$,
  'and repairs a payload'
);
reset role;
select is(
  (select array[resolution, resolved_by] from public.failed_events where event_id = 'tap_2'),
  array['by hand', 'somebody'], 'the row says who resolved it'
);
select is(
  (select original_payload::text from public.failed_events where event_id = 'tap_1'), '{"id": "tap_1"}',
  'what was received is kept'
);

-- Vault and pg_net as in a project that does not let service_role use them.
create schema vault;
create table vault.decrypted_secrets (name text, decrypted_secret text);
insert into vault.decrypted_secrets values ('billing_worker_url', 'http://127.0.0.1'), ('billing_worker_key', 'x');
create schema net;
create function net.http_post(url text, body jsonb, headers jsonb, timeout_milliseconds integer)
returns bigint language sql as 'select 1::bigint';
select ok(public.wake_billing_worker(), 'its owner wakes the worker');

set local role service_role;
select ok(not public.wake_billing_worker(), 'service_role does not, if it may not read Vault');
select matches(
  public.retry_failed_event('tap_1'), 'The worker retries it at its next run\.',
  'and can request a retry all the same'
);
reset role;

select * from finish();
rollback;
