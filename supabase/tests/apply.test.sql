/*
 * public.billing_apply_events: what it writes, what it answers, exactly once, and that an
 * event that fails hurts no other.
 */
begin;
select plan(57);

create function pg_temp.report(fields jsonb)
returns jsonb language sql
return jsonb_build_object(
  'report', '{"plan_id": "plan_1", "provider_status": "past_due"}'::jsonb || fields
);

create function pg_temp.record(subscription_id text)
returns jsonb language sql as $$
  select to_jsonb(s) || jsonb_build_object('created_at', s.created_at = now())
  from billing.subscriptions s
  where s.id = subscription_id
$$;

create function pg_temp.traces(prefix text)
returns setof text language sql as $$
  select 'ledger ' || event_id from billing.processed_events where starts_with(event_id, prefix)
  union all
  select 'failure ' || event_id from billing.failed_events where starts_with(event_id, prefix)
  union all
  select 'notification ' || event_id from billing.notifications where starts_with(event_id, prefix)
  union all
  select 'subscription ' || id from billing.subscriptions where starts_with(id, prefix)
$$;

-- A trigger of the app that fails each record with this plan, after it was written.
create function pg_temp.trap()
returns trigger language plpgsql as $$
begin
  raise exception 'The trap went off.' using errcode = current_setting('tap.sqlstate');
end;
$$;
create trigger trap after insert or update on billing.subscriptions
for each row when (new.plan_id = 'plan_trap') execute function pg_temp.trap();

create function pg_temp.lacks(kind text, subscription_id text, fields jsonb)
returns text language sql as $$
  select coalesce(error_code || ' ' || error, outcome)
  from public.billing_apply_events(jsonb_build_array(
    pg_temp.event('lacking', kind, subscription_id, 30, fields) || '{"place": 1}'
  ))
$$;

create temporary table claim_log (place serial, claim text);

create function pg_temp.log_claim()
returns trigger language plpgsql security definer as $$
begin
  insert into pg_temp.claim_log (claim) values (new.provider || '/' || new.event_id);
  return new;
end;
$$;
create trigger log_claim before insert on billing.processed_events
for each row execute function pg_temp.log_claim();
grant select on claim_log to service_role;

set local role service_role;

-- Records and the ledger.
select pg_temp.apply(
  pg_temp.event('tap_1', 'creation', 'tap_sub', 10, '{
    "report": {
      "plan_id": "plan_1",
      "current_period_end": "2027-02-01T00:00:00Z",
      "provider_status": "trialing",
      "customer_id": "cus_1",
      "quantity": 5,
      "cancel_at": "2027-02-02T00:00:00Z",
      "trial_end": "2027-01-22T00:00:00Z",
      "paused": "void",
      "paused_until": "2027-03-01T00:00:00Z",
      "livemode": true,
      "items": [{"item_id": "si_1", "quantity": 5}],
      "items_complete": false
    }
  }'),
  pg_temp.event('tap_1b', 'creation', 'tap_other', 10)
);
select is(
  pg_temp.record('tap_sub'),
  '{
    "id": "tap_sub",
    "provider": "a",
    "account_id": "acc_1",
    "status": "active",
    "plan_id": "plan_1",
    "current_period_end": "2027-02-01T00:00:00+00:00",
    "canceled_at": null,
    "provider_status": "trialing",
    "customer_id": "cus_1",
    "quantity": 5,
    "cancel_at": "2027-02-02T00:00:00+00:00",
    "trial_end": "2027-01-22T00:00:00+00:00",
    "had_trial": true,
    "created_at": true,
    "paused": "void",
    "paused_until": "2027-03-01T00:00:00+00:00",
    "livemode": true,
    "past_due_since": null,
    "items": [{"item_id": "si_1", "quantity": 5}],
    "items_complete": false,
    "past_due_as_of": null,
    "not_past_due_as_of": "2027-01-15T08:00:10+00:00",
    "recovered_as_of": null,
    "unpaid_as_of": "-infinity",
    "account_mark": 7200000040000000,
    "changed_mark": 7200000040000000,
    "changed_in_second": null,
    "canceled_mark": null,
    "alive_mark": 7200000040000000
  }',
  'a creation makes a record with all that it reports'
);
create temporary table other_before as select pg_temp.record('tap_other') as record;

select is(
  (select to_jsonb(p) from billing.processed_events p where p.event_id = 'tap_1'),
  jsonb_build_object(
    'provider', 'a',
    'event_id', 'tap_1',
    'type', 'provider.creation',
    'outcome', 'applied',
    'processed_at', now()
  ),
  'an event that was applied is in the ledger'
);

select pg_temp.apply(pg_temp.event('tap_2', 'update', 'tap_sub', 20));
create temporary table before as select pg_temp.record('tap_sub') as record;

select pg_temp.apply(pg_temp.event('tap_3', 'deletion', 'tap_sub', 40, '{
  "report": {"customer_id": "cus_9"}
}'));
select is(
  pg_temp.record('tap_sub'),
  (select record from before)
    || jsonb_build_object(
      'status', 'canceled',
      'canceled_at', now(),
      'canceled_mark', 7200000160000002
    ),
  'a deletion cancels at the time of handling, and keeps everything else'
);

update billing.subscriptions set canceled_at = '2027-01-01T00:00:00Z' where id = 'tap_sub';
select pg_temp.apply(
  pg_temp.event('tap_4', 'deletion', 'tap_sub', 30),
  pg_temp.event('tap_5', 'update', 'tap_sub', 50)
);
select is(
  pg_temp.record('tap_sub') ->> 'canceled_at',
  '2027-01-01T00:00:00+00:00',
  'an older deletion or an update leaves canceled_at'
);

select pg_temp.apply(pg_temp.event('tap_6', 'deletion', 'tap_sub', 60));
select is(
  (pg_temp.record('tap_sub') ->> 'canceled_at')::timestamptz,
  now(),
  'a newer deletion sets it again'
);

create function pg_temp.record_of(turn integer)
returns billing.records language sql as $$
  select jsonb_populate_record(
    null::billing.records,
    jsonb_object_agg(
      a.attname,
      case a.atttypid::regtype::text
        when 'timestamp with time zone' then to_jsonb(
          '2027-01-01Z'::timestamptz + (a.attnum + 100 * turn) * interval '1 day'
        )
        when 'jsonb' then jsonb_build_array(a.attnum + 100 * turn)
        when 'boolean' then to_jsonb(turn = 1)
        else to_jsonb(a.attnum + 100 * turn)
      end
    ) || '{"id": "every_column"}'
  )
  from pg_attribute a
  where a.attrelid = 'billing.records'::regclass
$$;
create function pg_temp.written(r billing.records)
returns billing.records language sql as $$
  select billing.write_records(array[r]);
  select * from billing.records where id = 'every_column'
$$;
select is(
  pg_temp.written(pg_temp.record_of(turn)),
  pg_temp.record_of(turn),
  'a new record, and a changed one, is written in full'
)
from generate_series(1, 2) as turn;

-- Failed payments.
select is(
  pg_temp.apply(
    pg_temp.event('payment_1', 'payment_failed', 'tap_other', 30, '{
      "payment": {
        "invoice_id": "in_1",
        "hosted_invoice_url": "https://pay.example.com/in_1",
        "amount_due": 9007199254740991,
        "currency": "eur",
        "attempt_count": 2,
        "next_payment_attempt": "2027-02-03T10:00:00Z",
        "trial_end": "2027-02-04T10:00:00Z"
      }
    }'),
    pg_temp.event('payment_2', 'payment_failed', 'tap_other', null, '{
      "payment": {"invoice_id": "in_1"}
    }'),
    pg_temp.event('payment_3', 'payment_failed', 'tap_other', 30)
  ),
  'applied, applied, applied',
  'failed payments are applied, with or without details'
);
select results_eq(
  $$
    select jsonb_strip_nulls(to_jsonb(n) - 'id')
    from billing.notifications n
    where n.subscription_id = 'tap_other'
    order by event_id
  $$,
  $$
    select jsonb_build_object(
      'provider', 'a',
      'event_id', d.event_id,
      'account_id', 'acc_1',
      'subscription_id', 'tap_other',
      'kind', 'payment_failed',
      'status', 'pending',
      'attempts', 0,
      'next_attempt_at', now(),
      'created_at', now(),
      'occurred_at', now()
    ) || d.details::jsonb
    from (
      values
        (
          'payment_1',
          '{
            "occurred_at": "2027-01-15T08:00:30+00:00",
            "invoice_id": "in_1",
            "hosted_invoice_url": "https://pay.example.com/in_1",
            "amount_due": 9007199254740991,
            "currency": "eur",
            "attempt_count": 2,
            "next_payment_attempt": "2027-02-03T10:00:00+00:00",
            "trial_end": "2027-02-04T10:00:00+00:00"
          }'
        ),
        ('payment_2', '{"invoice_id": "in_1"}'),
        ('payment_3', '{"occurred_at": "2027-01-15T08:00:30+00:00"}')
    ) as d (event_id, details)
  $$,
  'a failed payment notifies the account of the subscription, with what the event says'
);
select is(
  pg_temp.record('tap_other'),
  (select record from other_before),
  'failed payments leave the record, as do events of another subscription'
);

select pg_temp.apply(
  pg_temp.event('payment_4', 'creation', 'tap_other', 20, '{"account_id": "acc_2"}'),
  pg_temp.event('payment_5', 'payment_failed', 'tap_other', 40),
  pg_temp.event('payment_6', 'update', 'tap_other', 5, '{
    "previous": {"provider_status": "unpaid"},
    "report": {"plan_id": "plan_1", "provider_status": "active"},
    "payment": {"kind": "recovered"}
  }')
);
select set_eq(
  'select event_id, kind, account_id from billing.notifications',
  $$
    values
      ('payment_1', 'payment_failed', 'acc_1'),
      ('payment_2', 'payment_failed', 'acc_1'),
      ('payment_3', 'payment_failed', 'acc_1'),
      ('payment_5', 'payment_failed', 'acc_2')
  $$,
  'failed payments alone notify the account that has the subscription after the events before'
);

create function pg_temp.once(
  event_id text,
  invoice_id text,
  subscription_id text default 'tap_other',
  second integer default 50,
  told text default 'payment_failed'
)
returns jsonb language sql
return pg_temp.event(
  event_id,
  'payment_failed',
  subscription_id,
  second,
  jsonb_build_object(
    'payment', jsonb_build_object('kind', told, 'invoice_id', invoice_id, 'once_per_invoice', true)
  )
);

select is(
  pg_temp.apply(
    pg_temp.once('once_known', 'in_1'),
    pg_temp.once('once_first', 'in_2', second => 52),
    pg_temp.once('once_second', 'in_2', second => 51),
    pg_temp.once('once_failed', 'in_2', 'tap_gone'),
    pg_temp.once('once_no_invoice_1', null),
    pg_temp.once('once_no_invoice_2', null),
    pg_temp.once('once_action_1', 'in_2', told => 'action_required')
  ),
  'applied, applied, applied, failed BW001, applied, applied, applied',
  'events with once_per_invoice are applied'
);

update billing.notifications
set status = case event_id when 'once_first' then 'sent' else 'withdrawn' end
where event_id in ('once_first', 'once_action_1');
select pg_temp.apply(
  pg_temp.once('once_third', 'in_2'),
  pg_temp.once('once_action_2', 'in_2', told => 'action_required'),
  pg_temp.event('creation_of_b', 'creation', 'tap_other_b', 10, '{"provider": "b"}'),
  pg_temp.once('once_of_b', 'in_2', 'tap_other_b') || '{"provider": "b"}'
);
select set_eq(
  $$
    select concat_ws(' ', event_id, nullif(kind, 'payment_failed'))
    from billing.notifications
    where event_id like 'once\_%'
  $$,
  array[
    'once_first',
    'once_no_invoice_1',
    'once_no_invoice_2',
    'once_of_b',
    'once_action_1 action_required',
    'once_action_2 action_required'
  ],
  'per provider, invoice and kind there is one notification, unless it was withdrawn'
);

-- The answers.
select results_eq(
  $$
    select *
    from public.billing_apply_events(jsonb_build_array(
      pg_temp.event('mixed_1', 'deletion', 'mixed', 20) || '{"place": 1}',
      pg_temp.event('mixed_2', 'payment_failed', 'tap_none', 20) || '{"place": 2}',
      pg_temp.event('mixed_3', 'creation', 'mixed', 10) || '{"place": 3}',
      pg_temp.event('tap_1', 'creation', 'tap_sub', 10) || '{"place": 4}',
      pg_temp.event('mixed_4', 'refund', 'mixed', 10) || '{"place": 5, "something": "else"}',
      pg_temp.event('mixed_5', 'update', 'tap_sub', 5) || '{"place": 6}'
    ))
    order by place
  $$,
  $$
    values
      (1, 'applied', null, null, false),
      (2, 'failed', 'BW001', 'No subscription tap_none is recorded.', false),
      (3, 'applied', null, null, false),
      (4, 'duplicate', null, null, false),
      (5, 'failed', 'BW003', 'No function applies events of type provider.refund.', false),
      (6, 'stale', null, null, false)
  $$,
  'each event has one answer, with its place'
);
select is(
  pg_temp.record('mixed') ->> 'status',
  'canceled',
  'an event is applied after the creation that follows it'
);

select is(
  pg_temp.apply(
    pg_temp.event('mixed_6', 'update', 'mixed_6', 30, pg_temp.report('{"plan_id": "plan_2"}')),
    pg_temp.event('mixed_7', 'creation', 'mixed_6', 40, pg_temp.report('{"plan_id": "plan_3"}')),
    pg_temp.event('mixed_8', 'update', 'mixed_6', null, pg_temp.report('{"plan_id": "plan_4"}')),
    pg_temp.event('mixed_9', 'update', 'mixed_6', 50)
  ) || ': ' || (pg_temp.record('mixed_6') ->> 'plan_id'),
  'stale, applied, applied, applied: plan_1',
  'events are applied by time, and those without a time in the order of the array'
);
select set_eq(
  $$select event_id, outcome from billing.processed_events where event_id like 'mixed\_%'$$,
  $$
    values
      ('mixed_1', 'applied'),
      ('mixed_3', 'applied'),
      ('mixed_5', 'stale'),
      ('mixed_6', 'stale'),
      ('mixed_7', 'applied'),
      ('mixed_8', 'applied'),
      ('mixed_9', 'applied')
  $$,
  'the ledger has applied and stale events, and none that failed'
);

-- Duplicates.
update billing.processed_events
set processed_at = '2027-01-01T00:00:00Z'
where event_id in ('tap_1', 'mixed_5', 'payment_1');
create temporary table before_duplicates as select pg_temp.record('tap_sub') as record;

select is(
  pg_temp.apply(
    pg_temp.event('tap_1', 'creation', 'tap_sub', 10),
    pg_temp.event('mixed_5', 'update', 'tap_sub', 5),
    pg_temp.event('payment_1', 'payment_failed', 'tap_other', 30)
  )
    || '; '
    || pg_temp.apply(
      pg_temp.event('tap_1', 'update', 'tap_sub', 90),
      pg_temp.event('tap_1', 'update', 'tap_nowhere', 90)
    ),
  'duplicate, duplicate, duplicate; duplicate, duplicate',
  'the same event is a duplicate, as is another with its id'
);
select is(
  pg_temp.record('tap_sub'),
  (select record from before_duplicates),
  'duplicates leave the record'
);
select set_eq(
  $$
    select event_id, type, outcome
    from billing.processed_events
    where processed_at = '2027-01-01T00:00:00Z'
  $$,
  $$
    values
      ('tap_1', 'provider.creation', 'applied'),
      ('mixed_5', 'provider.update', 'stale'),
      ('payment_1', 'provider.payment_failed', 'applied')
  $$,
  'duplicates leave the ledger'
);

delete from billing.processed_events where event_id = 'payment_1';
update billing.notifications set status = 'sent' where event_id = 'payment_1';
select is(
  pg_temp.apply(pg_temp.event('payment_1', 'payment_failed', 'tap_other', 30)),
  'applied',
  'a failed payment whose row was pruned from the ledger is applied again'
);
select results_eq(
  $$select status from billing.notifications where event_id = 'payment_1'$$,
  $$values ('sent')$$,
  'it sends no second notification'
);

select is(
  pg_temp.apply(
    pg_temp.event('tap_1', 'update', 'tap_other_b', 20, '{"provider": "b"}'),
    pg_temp.event('both_1', 'payment_failed', 'tap_other_b', 30, '{"provider": "b"}'),
    pg_temp.event('both_1', 'payment_failed', 'tap_other', 30)
  ),
  'applied, applied, applied',
  'events of two providers with the same id are different events'
);
select is(
  (select count(*)::integer from billing.notifications where event_id = 'both_1'),
  2,
  'they notify both'
);

-- Copies in one array.
select is(
  pg_temp.apply(
    pg_temp.event('copy_1', 'update', 'tap_other', 60, pg_temp.report('{"plan_id": "plan_first"}')),
    pg_temp.event('copy_1', 'update', 'tap_other', 55, pg_temp.report('{
      "plan_id": "plan_second"
    }')),
    pg_temp.event('copy_2', 'payment_failed', 'tap_other', 60),
    pg_temp.event('copy_2', 'payment_failed', 'tap_other', 60)
  ),
  'applied, duplicate, applied, duplicate',
  'of copies, the first is applied and the others are duplicates'
);
select is(
  pg_temp.record('tap_other') ->> 'plan_id',
  'plan_first',
  'it is the first in the array, not in time'
);
select is(
  (select count(*)::integer from billing.notifications where event_id = 'copy_2'),
  1,
  'they create one notification'
);

select is(
  pg_temp.apply(
    pg_temp.event('copy_3', 'deletion', 'copy', 10),
    pg_temp.event('copy_4', 'creation', 'copy', 20),
    pg_temp.event('copy_3', 'deletion', 'copy', 30)
  ),
  'applied, applied, duplicate',
  'copies of an event before its creation in the array are duplicates'
);
select is(
  (
    select a.error
    from public.billing_apply_events(jsonb_build_array(
      pg_temp.event('copy_5', 'update', 'tap_none', 10) || '{"place": 1}',
      pg_temp.event('copy_5', 'update', 'tap_none', 10) || '{"place": 2}'
    )) as a
    where a.place = 2
  ),
  'No subscription tap_none is recorded.',
  'a copy of an event that failed has failed in the same way'
);

-- Locks are taken in an order that keeps two calls from a deadlock.
reset role;
truncate claim_log;
insert into billing.subscriptions (id, provider, account_id, status, plan_id)
values ('locked_2', 'b', 'acc_1', 'active', 'plan_1');
set local role service_role;
select pg_temp.apply(
  pg_temp.event('lock_3', 'update', 'locked_3', 10),
  pg_temp.event('lock_2', 'payment_failed', 'locked_2', 10, '{"provider": "b"}'),
  pg_temp.event('lock_4', 'creation', 'locked_4', 10),
  pg_temp.event('lock_1', 'deletion', 'locked_1', 10)
);
select is(
  (select string_agg(claim, ', ' order by place) from claim_log),
  'a/lock_1, a/lock_3, a/lock_4, b/lock_2',
  'events are claimed in the order of provider and id'
);
select is_empty(
  $$
    select id
    from unnest(array['locked_1', 'locked_2', 'locked_3', 'locked_4']) as id
    where hashtextextended(id, 0) not in (
      select (l.classid::bigint << 32) | l.objid::bigint
      from pg_locks l
      where l.locktype = 'advisory' and l.pid = pg_backend_pid() and l.granted
    )
  $$,
  'each claimed event''s subscription stays locked, with or without a record'
);

-- Events that fail.
select is(
  pg_temp.apply(
    pg_temp.event('failing_1', 'creation', 'failing_1', 10),
    pg_temp.event('failing_2', 'update', 'failing_2', 10),
    pg_temp.event('failing_3', 'payment_failed', 'tap_sub', 10),
    pg_temp.event('failing_4', 'update', 'tap_sub', 99, '{"provider": "b"}'),
    pg_temp.event('failing_5', 'creation', 'tap_sub', 99, '{"provider": "b", "account_id": "x"}'),
    pg_temp.event('failing_6', 'deletion', 'failing_6', 10),
    pg_temp.event('failing_7', 'payment_failed', 'failing_7', 10),
    pg_temp.event('failing_8', 'creation', 'failing_8', 10, '{"account_id": null}')
  ),
  'applied, failed BW001, applied, failed BW002, failed BW002, failed BW001, failed BW001, '
    'failed BW005',
  'failed events leave the others of the array alone'
);
select set_eq(
  $$select pg_temp.traces('failing')$$,
  array['ledger failing_1', 'subscription failing_1', 'ledger failing_3', 'notification failing_3'],
  'failed events leave nothing behind'
);

select is(
  pg_temp.apply(
    pg_temp.event('failing_2', 'update', 'failing_2', 20),
    pg_temp.event('failing_9', 'creation', 'failing_2', 10)
  )
    || ': '
    || pg_temp.apply(pg_temp.event('failing_2', 'update', 'failing_2', 20)),
  'applied, applied: duplicate',
  'an event that failed is applied with its creation, and then a duplicate'
);

-- Values that the database refuses: each half of the array is applied by itself.
select is(
  pg_temp.apply(variadic (
    select array_agg(
      pg_temp.event('half_' || i, 'creation', 'half_' || i, 10, pg_temp.report((case
        when i = 3 then '{"plan_id": null}'
        when i = 8 then '{"plan_id": ""}'
        when i in (9, 12) then '{"quantity": 2147483648}'
        else '{}'
      end)::jsonb)) order by i
    )
    from generate_series(1, 13) as i
  )),
  'applied, applied, failed 23502, applied, applied, applied, applied, failed 23514, '
    'failed 22003, applied, applied, failed 22003, applied',
  'refused events fail with their SQLSTATE, and the others are applied'
);
select set_eq(
  $$select pg_temp.traces('half')$$,
  $$
    select kind || i
    from generate_series(1, 13) as i, unnest(array['ledger half_', 'subscription half_']) as kind
    where i not in (3, 8, 9, 12)
  $$,
  'each event has its record and its row in the ledger, or neither'
);

select is(
  pg_temp.apply(
    pg_temp.event('half_1', 'creation', 'half_1', 10),
    pg_temp.event('invalid_1', 'update', 'half_1', 20, pg_temp.report('{"plan_id": ""}')),
    pg_temp.event('invalid_2', 'update', 'half_1', 30, pg_temp.report('{"plan_id": "plan_2"}')),
    pg_temp.event('invalid_3', 'payment_failed', 'half_2', 10, '{
      "payment": {"amount_due": 9223372036854775808}
    }'),
    pg_temp.event('invalid_4', 'update', 'tap_none', 10),
    pg_temp.event('invalid_2', 'update', 'half_1', 30)
  ),
  'duplicate, applied, applied, failed 22003, failed BW001, duplicate',
  'a record is written once per call, so an invalid value fails only if it is the last'
);
select is(pg_temp.record('half_1') ->> 'plan_id', 'plan_2', 'the newest plan is');

select is(
  pg_temp.apply(
    pg_temp.event('invalid_5', 'creation', 'invalid_5', 10, '{"account_id": ""}'),
    pg_temp.event('invalid_5', 'creation', 'invalid_5', 10, '{"provider": "b"}')
  ),
  'failed 23514, applied',
  'of two events with one id, one may fail'
);
select is(
  (select string_agg(provider, ', ') from billing.processed_events where event_id = 'invalid_5'),
  'b',
  'only the failed one loses its claim'
);

create function pg_temp.spring_trap(code text)
returns text language plpgsql as $$
begin
  perform set_config('tap.sqlstate', code, true);
  return pg_temp.apply(
    pg_temp.event('good_1_' || code, 'payment_failed', 'tap_sub', 10),
    pg_temp.event('bad_' || code, 'update', 'tap_other', 99, '{
      "report": {"plan_id": "plan_trap"}
    }'),
    pg_temp.event('good_2_' || code, 'creation', 'good_' || code, 10)
  );
exception when query_canceled or others then
  return 'raised ' || sqlstate;
end;
$$;
create temporary table before_traps as select pg_temp.record('tap_other') as record;

select is(
  pg_temp.spring_trap(s.code),
  'applied, failed ' || s.code || ', applied',
  format('%s fails the one event: %s', s.code, s.meaning)
)
from (
  values
    ('55P03', 'a lock of another transaction'),
    ('P0001', 'an exception of a trigger'),
    ('P0004', 'an assertion of a trigger'),
    ('40001', 'a serialization failure')
) as s (code, meaning);
select is_empty($$select pg_temp.traces('bad_')$$, 'an event that a trap fails has no claim');
select is(
  pg_temp.record('tap_other'),
  (select record from before_traps),
  'what that event had written is undone'
);

select is(
  pg_temp.spring_trap('57014'),
  'raised 57014',
  'a statement that took too long fails the whole call'
);
select is_empty(
  $$select t from pg_temp.traces('good_') as t where t ~ '57014$'$$,
  'nothing is left of its good events'
);

-- Triggers and columns that an app adds.
reset role;
create constraint trigger late_trap after update on billing.subscriptions
deferrable initially deferred for each row when (new.plan_id = 'plan_late') execute function pg_temp.trap();
set local role service_role;
select set_config('tap.sqlstate', 'P0001', true);
select is(
  pg_temp.apply(
    pg_temp.event('tap_late1', 'creation', 'tap_late', 10),
    pg_temp.event('tap_late2', 'update', 'tap_other', 99, '{"report": {"plan_id": "plan_late"}}'),
    pg_temp.event('tap_late3', 'update', 'tap_late', 20)
  ),
  'applied, failed P0001, applied',
  'a deferred check of the app fails only its event'
);

reset role;

create function pg_temp.count_up()
returns trigger language plpgsql as $$
begin
  update tap_counters set n = n + 1;
  return null;
end;
$$;
create trigger count_up after update on billing.subscriptions
for each row when (new.plan_id = 'plan_count') execute function pg_temp.count_up();
create or replace function billing.account_of_customer(provider text, customer_id text)
returns text language sql stable set search_path = '' set check_function_bodies = off as $$
  select account_id from tap_accounts
$$;
set local role service_role;
select matches(
  pg_temp.lacks('update', 'tap_late', '{"report": {"plan_id": "plan_count"}}'),
  '^BW008 pg_temp_\d+\.count_up raised 42P01: relation "tap_counters" does not exist$',
  'a trigger that lacks a table fails its event, by name'
);
select matches(
  pg_temp.lacks('creation', 'tap_new', '{
    "account_id": null, "report": {"plan_id": "plan_1", "customer_id": "cus_1"}
  }'),
  '^BW008 account_of_customer raised 42P01: ',
  'so does account_of_customer in SQL'
);

reset role;
alter table billing.subscriptions
  add column r text default 'app',
  add column record text,
  add column events text;

create function pg_temp.stamp()
returns trigger language plpgsql as $$
begin
  new.record := concat(
    new.record, tg_op, ' ', current_setting('lock_timeout')::interval <= '20 ms', ' '
  );
  return new;
end;
$$;
create trigger stamp before insert or update on billing.subscriptions
for each row execute function pg_temp.stamp();
set local role service_role;
select pg_temp.apply(
  pg_temp.event('stamped_1', 'creation', 'stamped', 10),
  pg_temp.event('stamped_2', 'update', 'stamped', 20),
  pg_temp.event('stamped_3', 'payment_failed', 'stamped', 20)
);

select pg_temp.apply(pg_temp.event('stamped_4', 'update', 'stamped', 30));
select pg_temp.apply(
  pg_temp.event('stamped_5', 'payment_failed', 'stamped', 30),
  pg_temp.event('stamped_6', 'update', 'stamped', 25)
);
select is(
  (select r || ' ' || record from billing.subscriptions where id = 'stamped'),
  'app INSERT t UPDATE t ',
  'a call writes a changed record once, waits briefly for locks, and allows columns of any name'
);

-- A record that an operator gives to another account.
update billing.subscriptions set account_id = 'acc_moved' where id = 'stamped';
select pg_temp.apply(
  pg_temp.event('stamped_1', 'creation', 'stamped', 10),
  pg_temp.event('stamped_7', 'update', 'stamped', 50),
  pg_temp.event('stamped_8', 'deletion', 'stamped', 60)
);
select is(
  (select account_id || ' ' || status from billing.subscriptions where id = 'stamped'),
  'acc_moved canceled',
  'later events leave the account that an operator has set'
);

-- Events that are only tried.
create function pg_temp.try_out(e jsonb)
returns text language sql as $$
  select concat_ws(' ', t.outcome, t.error_code) from public.billing_try_event(e) as t
$$;

select is(
  concat_ws(
    ', ',
    pg_temp.try_out(pg_temp.event('tried_1', 'creation', 'tried', 10)),
    pg_temp.try_out(pg_temp.event('tried_3', 'update', 'tried', 20)),
    pg_temp.try_out(pg_temp.event('stamped_4', 'update', 'stamped', 30))
  ),
  'applied, failed BW001, duplicate',
  'a trial tells what would become of an event'
);
select is_empty($$select pg_temp.traces('tried')$$, 'a trial leaves nothing');

select pg_temp.file('tried_4');
update billing.failed_events set payload = '{"n": 1}' where event_id = 'tried_4';
select is(
  pg_temp.try_out(pg_temp.event('tried_4', 'creation', 'tried', 10)),
  'applied',
  'a repaired event would be applied by its retry'
);
select ok(
  (select original_payload is not null and resolved_at is null from pg_temp.failed('tried_4')),
  'a trial leaves a failure repaired and open'
);

select * from finish();
rollback;
