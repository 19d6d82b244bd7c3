/*
 * Failures that heal without a person: by a creation that comes later, or by the schedule of
 * retries. Time passes by moving next_retry_at back.
 */
begin;
select plan(61);
truncate billing.failed_events, billing.leases, billing.subscriptions, billing.processed_events,
  billing.grants;

-- Applies an event. Returns its outcome, and `t` if the answer says that a retry is requested.
create function pg_temp.told(event jsonb)
returns text language sql as $$
  select concat_ws(' ', a.outcome, a.error_code, nullif(a.retries, false))
  from public.billing_apply_events(jsonb_build_array(event || '{"place": 1}')) as a
$$;

-- Runs the worker once; every retry has this outcome. Returns the events that were retried.
create function pg_temp.run_worker(error_code text default null)
returns text language plpgsql as $$
declare
  run constant uuid := gen_random_uuid();
  claimed text[];
begin
  claimed := array(select event_id from public.billing_claim_failed_events(run, 100));
  perform public.billing_settle_failed_events(run, (
    select coalesce(jsonb_agg(jsonb_build_object(
      'provider', 'a',
      'event_id', c,
      'outcome', case when error_code is null then 'applied' else 'failed' end,
      'error_code', error_code,
      'error', 'Failed'
    )), '[]')
    from unnest(claimed) as c
  ));
  perform public.billing_release_lease('retries', run);
  return array_to_string(claimed, ' ');
end;
$$;

-- Returns the minutes until the next retry of an event, and how many scheduled ones have failed.
create function pg_temp.waits(event_id text)
returns text language sql as $$
  select concat_ws(
    ' ',
    (
      extract(epoch from date_trunc('minute', next_retry_at - now() + interval '10 s')) / 60
    )::integer,
    '/ ' || scheduled_retries
  )
  from billing.failed_events f
  where f.event_id = waits.event_id
$$;

create function pg_temp.pass(minutes numeric)
returns void language sql as $$
  update billing.failed_events
  set next_retry_at = next_retry_at - make_interval(secs => (minutes * 60 + 5)::double precision)
$$;

select pg_temp.file(f.event_id, f.code, f.subscription, jsonb_build_object('provider', f.provider))
from (
  values
    ('early_1', 'subscription_unknown', 'sub_1', 'a'),
    ('early_2', 'creation_pending', 'sub_1', 'a'),
    ('early_3', 'event_invalid', 'sub_1', 'a'),
    ('early_4', 'subscription_unknown', 'sub_2', 'a'),
    ('early_5', 'subscription_unknown', 'sub_1', 'b'),
    ('early_6', 'subscription_unknown', 'sub_1', 'a')
) as f (event_id, code, subscription, provider);
select billing.resolve_failed_event('early_6', 'of the test', 'us');
select is(
  pg_temp.told(pg_temp.event('event_1', 'creation', 'sub_1', null)) || ': ' || pg_temp.requested(),
  'applied t: early_1 early_2',
  'a creation requests open failures of its provider and subscription, and says so'
);

select is(
  array[
    pg_temp.told(pg_temp.event('event_2', 'creation', 'sub_3', null)),
    pg_temp.told(pg_temp.event('event_3', 'update', 'sub_1', null)),
    pg_temp.run_worker(),
    pg_temp.requested()
  ],
  '{applied t,applied,early_1 early_2,null}',
  'a later creation says so too, until the worker retries them'
);

select is(
  array[
    pg_temp.file('early_7', 'subscription_unknown', 'sub_3'),
    pg_temp.file('early_8', 'subscription_unknown', 'sub_3', '{"provider": "b"}'),
    pg_temp.file('early_9', 'event_invalid', 'sub_3')
  ],
  '{retry,stored,stored}',
  'a failure that is stored after the creation of its provider is requested at once'
);
select is(pg_temp.requested(), 'early_7', 'no other is');

-- All ways of making a record, or of giving it its account, cure what waited for it.
truncate billing.failed_events, billing.leases;

create function pg_temp.fail(way text, what text, error_code text)
returns text language sql as $$
  select pg_temp.file(way || ' ' || what, error_code, 'sub_' || way, jsonb_build_object(
    'kind', what,
    'customer_id', case what when 'creation' then null else 'cus_' || way end
  ))
$$;

create function pg_temp.made(way text, kind text, more jsonb default '{}')
returns text language sql as $$
  select pg_temp.told(pg_temp.event(
    gen_random_uuid()::text,
    kind,
    'sub_' || way,
    null,
    jsonb_build_object('account_id', 'acc_1', 'report', jsonb_build_object(
      'plan_id', 'plan_1',
      'provider_status', 'active',
      'customer_id', 'cus_' || way
    )) || more
  ))
$$;

create function pg_temp.cured(way text)
returns text language sql as $$
  select string_agg(split_part(event_id, ' ', 2), ' ' order by first_failed_at, event_id)
  from billing.failed_events
  where event_id ~ ('^' || way || ' ') and retry_requested_at is not null
$$;

-- A way that makes the record cures all failures; one that brings the account of a customer cures
-- only what makes the record.
create temporary table ways as
select unnest(ways) as way, cures
from (
  values
    (
      '{creation,opening_update,deletion,customer,fallback}'::text[],
      'creation deletion opening_update payment_failed'
    ),
    ('{repair}', 'deletion opening_update payment_failed'),
    ('{other,row,corrected,checkout,moved}', 'opening_update')
) as w (ways, cures);
select
  pg_temp.fail(way, 'creation', 'account_unknown'),
  pg_temp.fail(way, 'opening_update', 'account_unknown'),
  pg_temp.fail(way, 'deletion', 'subscription_unknown'),
  pg_temp.fail(way, 'payment_failed', 'creation_pending')
from ways;
insert into billing.subscriptions (id, provider, account_id, status, plan_id)
values ('sub_of_another', 'a', 'acc_1', 'active', 'plan_1');

create or replace function billing.account_of_customer(provider text, customer_id text)
returns text language sql stable set search_path = '' as $$
  select max(account_id)
  from (
    select account_id
    from billing.customers c
    where c.customer_id = account_of_customer.customer_id
    union all
    select account_id
    from billing.subscriptions s
    where s.customer_id = account_of_customer.customer_id
    union all
    select 'acc_1'
    where account_of_customer.customer_id = 'cus_customer'
  ) as known
$$;

select is(pg_temp.made(way, kind, more), 'applied t', 'a record is made by ' || why)
from (
  values
    ('creation', 'creation', '{}'::jsonb, 'a creation that names its account'),
    ('opening_update', 'opening_update', '{}', 'an update'),
    ('deletion', 'deletion', '{}', 'a deletion'),
    ('customer', 'creation', '{"account_id": null}', 'one whose customer is known'),
    ('fallback', 'opening_update', '{"account_id": null, "fallback_account": "acc_1"}', 'one with a fallback account'),
    ('repair', 'creation', '{"event_id": "repair creation", "retry": {"event_id": "repair creation"}}', 'a retry')
) as v (way, kind, more, why);

select pg_temp.made('new', 'creation', '{
  "report": {"plan_id": "plan_1", "customer_id": "cus_other"}
}');
select pg_temp.made('of_another', 'update', '{"report": {"customer_id": "cus_moved"}}');
insert into billing.customers (provider, customer_id, account_id)
values ('a', 'cus_row', 'acc_1'), ('a', 'cus_typo', 'acc_1');
set constraints all immediate;
set constraints all deferred;
update billing.customers set customer_id = 'cus_corrected' where customer_id = 'cus_typo';
select pg_temp.made('none', 'checkout', '{
  "subscription_id": null,
  "report": {"customer_id": "cus_checkout"}
}');
set constraints all immediate;
select is(pg_temp.cured(way), cures, format('%s requests its failures', way)) from ways;

select is(
  array[
    pg_temp.fail('row', 'late', 'account_unknown'),
    pg_temp.fail('deletion', 'late', 'account_unknown'),
    pg_temp.fail('nobody', 'late', 'account_unknown'),
    pg_temp.fail('row', 'later', 'subscription_unknown')
  ],
  '{retry,retry,stored,stored}',
  'a failure whose account or record came just before it is requested, and no other'
);

-- A creation that comes while a run tries what waits for it.
truncate billing.failed_events, billing.leases;
select pg_temp.file('during_1', 'subscription_unknown', 'sub_d');
select billing.retry_failed_event('during_1');
select public.billing_claim_failed_events(lpad('1', 32, '0')::uuid, 9);

select pg_temp.told(pg_temp.event('event_4', 'creation', 'sub_d', null));

select public.billing_settle_failed_events(lpad('1', 32, '0')::uuid, '[{
  "provider": "a",
  "event_id": "during_1",
  "outcome": "failed",
  "error_code": "subscription_unknown",
  "error": "Unknown"
}]');
select is(
  (select concat_ws(' ', pg_temp.requested(), attempts) from billing.failed_events),
  'during_1 1',
  'a failure stays requested if its creation comes meanwhile, and counts no attempt'
);

truncate billing.failed_events, billing.leases;
select pg_temp.file('during_3', 'subscription_unknown', 'sub_r');
update billing.failed_events set payload = '{"n": 2}' where event_id = 'during_3';
select is(
  pg_temp.told(pg_temp.event('event_5', 'creation', 'sub_r', null)),
  'applied',
  'a creation does not request a repaired failure'
);

select pg_temp.file('during_3', 'subscription_unknown', 'sub_r');
select is(pg_temp.requested(), null, 'the old body of a repaired failure requests nothing');

-- The schedule.
truncate billing.failed_events;
select pg_temp.file(error_code, error_code, 'sub_4')
from unnest(array[
  'record_locked',
  'database_unavailable',
  'overloaded',
  'apply_failed',
  'subscription_unknown',
  'creation_pending',
  'handler_missing',
  'deployment_fault',
  'internal_error',
  'event_invalid',
  'account_unknown',
  'body_not_json',
  'subscription_of_other_provider',
  'repair_pending',
  'no_longer_handled',
  'body_too_large'
]) as error_code;
select is(
  (
    select string_agg(error_code, ' ' order by error_code)
    from billing.failed_events
    where next_retry_at is null
  ),
  'account_unknown body_not_json body_too_large event_invalid no_longer_handled repair_pending '
    'subscription_of_other_provider',
  'failures that only a person can cure have no retry'
);
select is(
  (
    select string_agg(distinct pg_temp.waits(event_id), ', ')
    from billing.failed_events
    where next_retry_at is not null
  ),
  '1 / 0',
  'all other failures are retried after a minute'
);
select is(pg_temp.run_worker('apply_failed'), '', 'no failure is retried before that');

truncate billing.failed_events;
select pg_temp.file('scheduled_1', 'apply_failed');
select is(
  (
    select string_agg(
      concat_ws(
        ' ',
        (select pg_temp.pass(m) is null),
        pg_temp.run_worker('apply_failed'),
        pg_temp.waits('scheduled_1')
      ),
      ', ' order by n
    )
    from unnest(array[1, 5, 30, 120, 360, 720, 1440]) with ordinality as w (m, n)
  ),
  't scheduled_1 5 / 1, t scheduled_1 30 / 2, t scheduled_1 120 / 3, t scheduled_1 360 / 4, '
    't scheduled_1 720 / 5, t scheduled_1 1440 / 6, t scheduled_1 / 7',
  'each failed retry leads to the next wait, and the last to none'
);

select pg_temp.pass(10000);
select is(pg_temp.run_worker(), '', 'a failure without another wait is not retried');
select is((select attempts from billing.failed_events), 8, 'each retry counts an attempt');

select pg_temp.file('scheduled_1', 'record_locked');
select is(pg_temp.waits('scheduled_1'), '/ 7', 'a delivery does not begin the schedule again');

select billing.retry_failed_event('scheduled_1');
select is(
  pg_temp.run_worker('apply_failed') || ': ' || pg_temp.waits('scheduled_1'),
  'scheduled_1: / 7',
  'nor does a requested retry'
);

select billing.retry_failed_events();
select is(pg_temp.waits('scheduled_1'), '1 / 0', 'a retry of all does');
select is(
  pg_temp.run_worker('apply_failed') || ': ' || pg_temp.waits('scheduled_1'),
  'scheduled_1: 1 / 0',
  'a requested retry is tried at once and leaves the schedule'
);

select pg_temp.pass(-2);
select pg_temp.file('scheduled_1', 'record_locked');
select is(pg_temp.waits('scheduled_1'), '3 / 0', 'a delivery that fails leaves the schedule');

select billing.retry_failed_event('scheduled_1');
select is(
  concat_ws(' ', pg_temp.run_worker('record_locked'), pg_temp.requested(), pg_temp.waits('scheduled_1')),
  'scheduled_1 scheduled_1 3 / 0',
  'a requested retry that finds the record locked stays requested'
);

select pg_temp.run_worker('apply_failed');
select pg_temp.pass(3);
select is(
  (select event_id from public.billing_claim_failed_events(gen_random_uuid(), 9)),
  'scheduled_1',
  'a due retry is claimed'
);

truncate billing.leases;
select is(
  (select scheduled_retries from billing.failed_events),
  0::smallint,
  'a retry that is not settled uses up none of the schedule'
);
select is(
  pg_temp.run_worker('record_locked') || ': ' || pg_temp.waits('scheduled_1'),
  'scheduled_1: 5 / 1',
  'a scheduled retry that finds the record locked uses up one wait'
);

select pg_temp.pass(5);
select is(
  pg_temp.run_worker('event_invalid') || ': ' || pg_temp.waits('scheduled_1'),
  'scheduled_1: / 2',
  'a retry that fails for good is the last'
);

select pg_temp.file('scheduled_1', 'apply_failed');
select is(
  pg_temp.waits('scheduled_1'),
  '30 / 2',
  'a passing cause lets the schedule go on where it was'
);

select pg_temp.file('scheduled_1', 'event_invalid');
select is(pg_temp.waits('scheduled_1'), '/ 2', 'a delivery that fails for good ends the schedule');

select billing.retry_failed_event('scheduled_1');
select is(
  pg_temp.run_worker('apply_failed') || ': ' || pg_temp.waits('scheduled_1'),
  'scheduled_1: 30 / 2',
  'a requested retry lets it go on, too'
);

update billing.failed_events
set resolved_at = now(), resolution = 'applied', next_retry_at = null;
select pg_temp.file('scheduled_1', 'apply_failed');
select is(pg_temp.waits('scheduled_1'), '1 / 0', 'a failure that opens again begins the schedule');

update public.billing_failed_events set payload = '{"n": 2}';
select is(pg_temp.waits('scheduled_1'), '/ 0', 'a repaired failure has no retry');

select pg_temp.file('scheduled_1', 'apply_failed');
select is(pg_temp.waits('scheduled_1'), '/ 0', 'the old body gives it none');

select billing.retry_failed_events();
select is(pg_temp.waits('scheduled_1'), '/ 0', 'nor does a retry of all');

select pg_temp.run_worker('apply_failed');
select is(pg_temp.waits('scheduled_1'), '/ 0', 'nor does a failed retry');

-- An outage: while nothing can be tried, nothing is used up, and then everything is tried once.
truncate billing.failed_events;
select
  pg_temp.file('outage_1', 'database_unavailable'),
  pg_temp.file('outage_2', 'apply_failed', 'sub_2');
select pg_temp.pass(60);
select is(
  pg_temp.run_worker('apply_failed') || ': ' || pg_temp.waits('outage_1'),
  'outage_1 outage_2: 5 / 1',
  'after an outage of an hour, failures are retried once'
);

-- Requested retries go first; what an earlier run has left comes later and alone.
truncate billing.failed_events, billing.alerts;
select pg_temp.file('scheduled_' || i, 'apply_failed', 'sub_' || i) from generate_series(1, 5) as i;
select pg_temp.pass(1);
select billing.retry_failed_event('scheduled_3');
select is(
  (select string_agg(event_id, ' ') from public.billing_claim_failed_events(gen_random_uuid(), 3)),
  'scheduled_3 scheduled_1 scheduled_2',
  'a requested retry goes before scheduled ones'
);

truncate billing.leases;

create function pg_temp.claim()
returns text language sql
return (
  select string_agg(event_id, ' ')
  from public.billing_claim_failed_events('00000000-0000-4000-8000-000000000003', 3)
);

select is(
  (select array_agg(pg_temp.claim()) from generate_series(1, 4)),
  '{scheduled_3,"scheduled_4 scheduled_5",scheduled_1,scheduled_2}',
  'what an earlier run has left is claimed alone, and last of its kind'
);

truncate billing.failed_events, billing.leases;
select pg_temp.file('scheduled_1', 'apply_failed');
select pg_temp.pass(1);
select pg_temp.run_worker('apply_failed');

select pg_temp.file('scheduled_3', 'apply_failed', 'sub_3');
update billing.failed_events
set first_failed_at = now() - interval '1 s'
where event_id = 'scheduled_1';
select is(
  (
    select concat_ws(' ', kind, alert ->> 'open', alert ->> 'event_id')
    from public.billing_claim_alerts(gen_random_uuid(), 'x')
  ),
  'failure_opened 2 scheduled_1',
  'once a first retry has failed, an alert counts all'
);

truncate billing.leases;
select pg_temp.file('scheduled_2', 'event_invalid', 'sub_2');
select is(
  (select count(*) from public.billing_claim_alerts(gen_random_uuid(), 'x')),
  2::bigint,
  'a failure without a retry raises an alert at once'
);

truncate billing.leases;
select billing.retry_failed_event('scheduled_2');
select is(
  (select count(*) from public.billing_claim_alerts(gen_random_uuid(), 'x')),
  1::bigint,
  'a failure whose retry is requested raises no alert'
);

truncate billing.failed_events, billing.leases;

-- The schedule leaves a trace: of runs that it has woken, in both queues, without a fault.
truncate billing.leases;

create function pg_temp.end_run(queue text, number integer, is_scheduled boolean)
returns void language sql as $$
  select billing.hold_lease(queue, lpad(number::text, 32, '0')::uuid);
  select public.billing_release_lease(queue, lpad(number::text, 32, '0')::uuid, true, is_scheduled)
$$;

create function pg_temp.schedule_ran()
returns boolean language sql as $$
  select last_scheduled_run_at = now() from public.billing_health
$$;
select pg_temp.end_run(queue, 1, false) from unnest(array['retries', 'notifications']) as queue;
select is(pg_temp.schedule_ran(), null, 'a run that the webhook has woken leaves no trace');

select pg_temp.end_run('retries', 3, true);
select is(pg_temp.schedule_ran(), null, 'one queue of a scheduled run leaves no trace');

select billing.hold_lease('notifications', lpad('4', 32, '0')::uuid);
select pg_temp.end_run('notifications', 3, true);
select is(pg_temp.schedule_ran(), true, 'both queues leave a trace, also if another run has one');

select pg_temp.end_run('retries', 5, false);
select is(pg_temp.schedule_ran(), true, 'a run that the webhook has woken keeps the trace');

update billing.leases set scheduled_run_at = now() - interval '1 h' where queue = 'retries';
select is(pg_temp.schedule_ran(), false, 'the older trace of the queues counts');
select ok(
  not billing.hold_lease('notifications', lpad('3', 32, '0')::uuid),
  'that other run keeps its queue'
);

select * from finish();
rollback;
