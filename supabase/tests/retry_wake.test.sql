/*
 * Asking for a retry wakes the worker at once where pg_net and Vault are set
 * up.
 */
begin;
select plan(11);

create function pg_temp.fail(p_event_id text)
returns boolean
language sql
as $$
  select public.record_failed_event('a', p_event_id, '{"n": 1}', 'text', 'tap_code', 'Failed', 'x')
$$;

-- tests/support/extensions stands for them.
create extension pg_net schema extensions;
create extension supabase_vault;

select pg_temp.fail('tap_1'), pg_temp.fail('tap_2');

select matches(
  public.retry_failed_event('tap_1'), 'retries it at its next run', 'before anything is scheduled nobody is woken'
);
select is_empty('select 1 from net.http_request_queue', 'and no call is made');

select
  vault.create_secret('https://ref.supabase.co/functions/v1/billing-worker', 'billing_worker_url'),
  vault.create_secret('sb_secret_1', 'billing_worker_key');
select matches(
  public.retry_failed_event('tap_1'), '^Retry requested: 1\. The worker is on its way\.',
  'once it is, a retry wakes the worker, and the answer says so'
);
select results_eq(
  $$select url, headers ->> 'apikey' from net.http_request_queue$$,
  $$values ('https://ref.supabase.co/functions/v1/billing-worker', 'sb_secret_1')$$,
  'with one call, at its URL and with its key'
);
delete from net.http_request_queue;
select matches(
  public.retry_failed_events(of_error_code => 'tap_code'), '^Retry requested: 2\. The worker is on its way\.',
  'a retry of many wakes it as well'
);
select is((select count(*)::int from net.http_request_queue), 1, 'once');
delete from net.http_request_queue;

-- Not in vain.

select is(
  public.retry_failed_events(of_error_code => 'tap_none'), 'No open failure matches: nothing to retry.',
  'where none fits'
);
select public.resolve_failed_event('tap_2', 'a test', 'somebody');
select is(
  public.retry_failed_event('tap_2'), 'It is already resolved: nothing to retry.', 'or it is resolved already'
);
select throws_ok($$select public.retry_failed_event('tap_none')$$, 'P0001', null, 'or there is no such event');
select is_empty('select 1 from net.http_request_queue', 'nobody is woken');

-- A wake that cannot be sent takes nothing with it that matters: the request is
-- made again, or the person sees why not.
drop extension pg_net;
create schema net;
create function net.http_post(url text) returns bigint language sql as 'select 1::bigint';
update public.failed_events set retry_requested_at = null where event_id = 'tap_1';
select throws_ok(
  $$select public.retry_failed_event('tap_1')$$, '42883', null, 'a wake that fails says so, and asks for nothing'
);

select * from finish();
rollback;
