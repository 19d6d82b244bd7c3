/*
 * apply_billing_events: an event has its effect once, however often and in
 * whatever company it comes.
 */
begin;
select plan(33);

create function pg_temp.apply(variadic p_events jsonb[])
returns text
language sql
as $$
  select string_agg(concat_ws(' ', a.outcome, a.error_code), ', ' order by a.place)
  from public.apply_billing_events(to_jsonb(p_events)) as a
$$;

create function pg_temp.event(p_event_id text, p_type text, p_subscription_id text, p_fields jsonb default '{}')
returns jsonb
language sql
as $$
  select jsonb_build_object(
    'provider', 'a', 'event_id', p_event_id, 'type', p_type, 'subscription_id', p_subscription_id,
    'account_id', 'acc_1', 'status', 'past_due', 'plan_id', 'plan_1',
    'current_period_end', '2027-02-01T00:00:00Z'
  ) || p_fields
$$;

create function pg_temp.created(p_event_id text, p_subscription_id text, p_fields jsonb default '{}')
returns jsonb
language sql
as $$
  select pg_temp.event(p_event_id, 'customer.subscription.created', p_subscription_id, p_fields)
$$;

create function pg_temp.updated(p_event_id text, p_subscription_id text, p_fields jsonb default '{}')
returns jsonb
language sql
as $$
  select pg_temp.event(p_event_id, 'customer.subscription.updated', p_subscription_id, p_fields)
$$;

create function pg_temp.invoice(p_event_id text, p_subscription_id text, p_fields jsonb default '{}')
returns jsonb
language sql
as $$
  select pg_temp.event(p_event_id, 'invoice.payment_failed', p_subscription_id, p_fields)
$$;

-- What the next call claims, in the order in which it does.
create temporary table claim_log (position serial, claim text);
create function pg_temp.log_claim()
returns trigger
language plpgsql
security definer
as $$
begin
  insert into pg_temp.claim_log (claim) values (new.provider || '/' || new.event_id);
  return new;
end;
$$;
create trigger log_claim before insert on public.processed_events
for each row execute function pg_temp.log_claim();
grant select on claim_log to service_role;

set local role service_role;

-- The same event again.

select is(pg_temp.apply(pg_temp.created('tap_1', 'tap_sub')), 'applied', 'the first delivery is applied');
update public.processed_events set processed_at = '2027-01-01T00:00:00Z' where event_id = 'tap_1';
select is(
  pg_temp.apply(pg_temp.created('tap_1', 'tap_sub')), 'duplicate',
  'the second delivery is a duplicate'
);
select is(
  pg_temp.apply(pg_temp.updated('tap_1', 'tap_sub', '{"status": "unpaid", "plan_id": "plan_9"}')),
  'duplicate',
  'another event under the same id is a duplicate'
);
select is(
  pg_temp.apply(pg_temp.updated('tap_1', 'tap_unlocked')), 'duplicate',
  'a duplicate is not looked at any further: its subscription need not exist'
);
select results_eq(
  $$select status, plan_id from public.subscriptions where id = 'tap_sub'$$,
  $$values ('active', 'plan_1')$$,
  'a duplicate leaves the record alone'
);
select is(
  (select jsonb_build_array(type, outcome, processed_at = '2027-01-01T00:00:00Z')
    from public.processed_events where event_id = 'tap_1'),
  '["customer.subscription.created", "applied", true]',
  'a duplicate leaves its row in the ledger alone'
);

select is(
  pg_temp.apply(pg_temp.invoice('tap_2', 'tap_sub')), 'applied', 'a failed invoice is applied'
);
select is(
  pg_temp.apply(pg_temp.invoice('tap_2', 'tap_sub')), 'duplicate',
  'a failed invoice that comes again is a duplicate'
);
update public.notifications set status = 'sent' where event_id = 'tap_2';
reset role;
delete from public.processed_events where event_id = 'tap_2';
set local role service_role;
select is(
  pg_temp.apply(pg_temp.invoice('tap_2', 'tap_sub')), 'applied',
  'a failed invoice whose row was pruned from the ledger is applied again'
);
select results_eq(
  $$select status from public.notifications where event_id = 'tap_2'$$,
  $$values ('sent')$$,
  'it owes no second notification, and does not send the first one again'
);

-- A stale event is settled as well.

select is(
  pg_temp.apply(
    pg_temp.updated('tap_3', 'tap_sub', '{"created": "2027-01-15T08:00:20Z"}'),
    pg_temp.created('tap_4', 'tap_sub', '{"created": "2027-01-15T08:00:10Z", "plan_id": "plan_0"}')
  ),
  'applied, applied',
  'an older creation brings the account of a record whose own creation had no time'
);
select is(
  pg_temp.apply(pg_temp.created('tap_5', 'tap_sub_b', '{"provider": "b"}')), 'applied',
  'another provider''s event under the same id is another event'
);
select is(
  pg_temp.apply(pg_temp.updated('tap_5', 'tap_sub', '{"created": "2027-01-15T08:00:15Z"}')), 'stale',
  'an older update is stale'
);
select set_eq(
  $$select provider, outcome from public.processed_events where event_id = 'tap_5'$$,
  $$values ('a', 'stale'), ('b', 'applied')$$,
  'the ledger tells that it was stale, and that the other one was not'
);
select is(
  pg_temp.apply(pg_temp.updated('tap_5', 'tap_sub', '{"created": "2027-01-15T08:00:15Z"}')), 'duplicate',
  'a stale event that comes again is a duplicate'
);
select is(
  (select outcome from public.processed_events where event_id = 'tap_5' and provider = 'a'), 'stale',
  'the ledger tells still that it was stale'
);

-- The same event twice in one array.

select is(
  pg_temp.apply(
    pg_temp.updated('tap_6', 'tap_sub', '{"plan_id": "plan_first"}'),
    pg_temp.updated('tap_6', 'tap_sub', '{"plan_id": "plan_second"}'),
    pg_temp.invoice('tap_7', 'tap_sub'),
    pg_temp.invoice('tap_7', 'tap_sub')
  ),
  'applied, duplicate, applied, duplicate',
  'of twins within an array the first is applied and the other is a duplicate'
);
select is(
  (select plan_id from public.subscriptions where id = 'tap_sub'), 'plan_first',
  'the twin that comes first in the array is the one that counts'
);
select is(
  (select count(*)::int from public.notifications where event_id = 'tap_7'), 1,
  'twins owe one notification'
);
select set_eq(
  $$select place, outcome, error_code, error
    from public.apply_billing_events(jsonb_build_array(
      pg_temp.updated('tap_8', 'tap_missing', '{"created": "2027-01-15T08:00:20Z"}'),
      pg_temp.updated('tap_8', 'tap_missing', '{"created": "2027-01-15T08:00:10Z"}')
    ))$$,
  $$values
    (1, 'failed', 'BW001', 'No subscription tap_missing is recorded.'),
    (2, 'failed', 'BW001', 'No subscription tap_missing is recorded.')$$,
  'the twin of an event that failed has failed in the same way, and is no duplicate'
);
select is_empty(
  $$select event_id from public.processed_events where event_id = 'tap_8'$$,
  'twins that failed leave no claim'
);
select is(
  pg_temp.apply(
    pg_temp.event('tap_9', 'customer.subscription.deleted', 'tap_late', '{"created": "2027-01-15T08:00:10Z"}'),
    pg_temp.created('tap_10', 'tap_late', '{"created": "2027-01-15T08:00:20Z"}'),
    pg_temp.event('tap_9', 'customer.subscription.deleted', 'tap_late', '{"created": "2027-01-15T08:00:10Z"}')
  ),
  'failed BW001, applied, failed BW001',
  'one event has one outcome in an array, even where its twin could be applied by then'
);
select is(
  pg_temp.apply(
    pg_temp.event('tap_9', 'customer.subscription.deleted', 'tap_late', '{"created": "2027-01-15T08:00:10Z"}')
  ),
  'applied',
  'twins that failed are applied by a later retry'
);

-- Two providers.

select is(
  pg_temp.apply(pg_temp.updated('tap_1', 'tap_sub_b', '{"provider": "b"}')), 'applied',
  'an event is applied whose id the ledger holds of another provider'
);
select is(
  pg_temp.apply(
    pg_temp.invoice('tap_11', 'tap_sub_b', '{"provider": "b"}'),
    pg_temp.invoice('tap_11', 'tap_sub')
  ),
  'applied, applied',
  'within an array, events of two providers under one id are no twins'
);
select results_eq(
  $$select provider, subscription_id from public.notifications
    where event_id = 'tap_11' order by provider$$,
  $$values ('a', 'tap_sub'), ('b', 'tap_sub_b')$$,
  'each of the two owes a notification of its own'
);

-- One notification per invoice, for callers that ask for it.

select is(
  pg_temp.apply(
    pg_temp.invoice('tap_12', 'tap_sub', '{"invoice_id": "tap_in_1", "once_per_invoice": true}'),
    pg_temp.invoice('tap_13', 'tap_sub', '{"invoice_id": "tap_in_1", "once_per_invoice": true}')
  ),
  'applied, applied',
  'two failed payments of an invoice are applied in one array'
);
select results_eq(
  $$select event_id from public.notifications where invoice_id = 'tap_in_1'$$, $$values ('tap_12')$$,
  'the first of them owes a notification'
);
select is(
  pg_temp.apply(
    pg_temp.invoice('tap_14', 'tap_sub', '{"invoice_id": "tap_in_1", "once_per_invoice": false}'),
    pg_temp.invoice('tap_15', 'tap_sub', '{"invoice_id": "tap_in_1", "once_per_invoice": null}')
  ),
  'applied, applied',
  'failed payments are applied for callers that do not ask for it'
);
select is(
  (select count(*)::integer from public.notifications where invoice_id = 'tap_in_1'), 3,
  'and each of them owes a notification'
);

-- The order of locks, which keeps concurrent arrays from deadlock.

reset role;
truncate claim_log;
set local role service_role;
select is(
  pg_temp.apply(
    pg_temp.invoice('tap_23', 'tap_sub'),
    pg_temp.invoice('tap_22', 'tap_sub_b', '{"provider": "b"}'),
    pg_temp.invoice('tap_24', 'tap_sub'),
    pg_temp.invoice('tap_21', 'tap_late')
  ),
  'applied, applied, applied, applied',
  'an array in no order is applied'
);
select is(
  (select string_agg(claim, ', ' order by position) from claim_log),
  'a/tap_21, a/tap_23, a/tap_24, b/tap_22',
  'events are claimed by provider and id, whatever the order of the array'
);
select results_eq(
  $$select hashtextextended(s.id, 0)
    from unnest(array['tap_sub', 'tap_sub_b', 'tap_late', 'tap_missing']) as s (id)
    order by 1$$,
  $$select (l.classid::bigint << 32) | l.objid::bigint
    from pg_locks l
    where l.locktype = 'advisory' and l.pid = pg_backend_pid() and l.granted
    order by 1$$,
  'the subscription of every claimed event is locked until the end of the transaction'
);

select * from finish();
rollback;
