/*
 * public.billing_apply_events: what it writes, what it answers, exactly once, and that an
 * event that fails hurts no other.
 */
begin;
select plan(78);
set local timezone = 'UTC';

-- The answers in the order of the places, such as 'applied, failed BW001'.
create function pg_temp.apply(variadic events jsonb[])
returns text language sql as $$
  select string_agg(concat_ws(' ', a.outcome, a.error_code), ', ' order by a.place)
  from public.billing_apply_events((
    select jsonb_agg(e.event || jsonb_build_object('place', e.place) order by e.place)
    from unnest(events) with ordinality as e (event, place)
  )) as a
$$;

-- `second` is the time of a made-up clock; null for an event without a time.
create function pg_temp.event(
  event_id text,
  kind text,
  subscription_id text,
  second numeric,
  fields jsonb default '{}'
)
returns jsonb language sql
return jsonb_build_object(
  'provider', 'a',
  'event_id', event_id,
  'type', 'provider.' || kind,
  'kind', kind,
  'occurred_at', '2027-01-15T08:00:00Z'::timestamptz + second * interval '1 second',
  'subscription_id', subscription_id,
  'account_id', case when kind = 'creation' then 'acc_1' end,
  'report', case
    when kind in ('creation', 'update') then '{
      "plan_id": "plan_1",
      "provider_status": "past_due"
    }'::jsonb
    else '{}'
  end,
  'payment', case when kind = 'payment_failed' then '{}'::jsonb end
) || fields;

create function pg_temp.report(fields jsonb)
returns jsonb language sql
return jsonb_build_object(
  'report', '{"plan_id": "plan_1", "provider_status": "past_due"}'::jsonb || fields
);

create function pg_temp.record(subscription_id text)
returns jsonb language sql as $$
  select to_jsonb(s) from billing.subscriptions s where s.id = subscription_id
$$;

-- All that events or subscriptions have left whose ids begin so.
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

-- A trigger of the app on each record with this plan, after it was written.
create function pg_temp.trap()
returns trigger language plpgsql as $$
begin
  raise exception 'The trap went off.' using errcode = current_setting('tap.sqlstate');
end;
$$;
create trigger trap after insert or update on billing.subscriptions
for each row when (new.plan_id = 'plan_trap') execute function pg_temp.trap();

create function pg_temp.lacks(event jsonb)
returns text language sql as $$
  select coalesce(error_code || ' ' || error, outcome)
  from public.billing_apply_events(jsonb_build_array(event || '{"place": 1}'))
$$;

-- Claims, in the order in which they are made.
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

-- What is written.
select is(
  pg_temp.apply(
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
  ),
  'applied, applied',
  'creations are applied'
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
    "account_as_of": 7200000040000000,
    "changed_as_of": 7200000040000000,
    "changed_in_second": null,
    "canceled_as_of": null,
    "alive_as_of": 7200000040000000
  }',
  'a creation makes a record with everything that it reports'
);
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
select is(
  pg_temp.apply(pg_temp.event('tap_2', 'update', 'tap_sub', 20, '{
    "report": {
      "plan_id": "plan_2",
      "current_period_end": null,
      "provider_status": "past_due",
      "customer_id": "cus_2",
      "quantity": 6,
      "cancel_at": null,
      "trial_end": "2027-01-23T00:00:00Z",
      "paused": null,
      "paused_until": null,
      "livemode": false,
      "items": [{"item_id": "si_2"}, {"item_id": "si_1"}],
      "items_complete": true
    },
    "previous": {"provider_status": "active", "paused": "void"}
  }')),
  'applied',
  'an update is applied'
);
select is(
  pg_temp.record('tap_sub'),
  '{
    "id": "tap_sub",
    "provider": "a",
    "account_id": "acc_1",
    "status": "past_due",
    "plan_id": "plan_2",
    "current_period_end": null,
    "canceled_at": null,
    "provider_status": "past_due",
    "customer_id": "cus_2",
    "quantity": 6,
    "cancel_at": null,
    "trial_end": "2027-01-23T00:00:00+00:00",
    "paused": null,
    "paused_until": null,
    "livemode": false,
    "items": [{"item_id": "si_2"}, {"item_id": "si_1"}],
    "items_complete": true,
    "past_due_since": "2027-01-15T08:00:20+00:00",
    "past_due_as_of": "2027-01-15T08:00:20+00:00",
    "not_past_due_as_of": "2027-01-15T08:00:20+00:00",
    "recovered_as_of": null,
    "unpaid_as_of": "-infinity",
    "account_as_of": 7200000040000000,
    "changed_as_of": 7200000080000001,
    "changed_in_second": {"provider_status": "active", "paused": "void"},
    "canceled_as_of": null,
    "alive_as_of": 7200000080000001
  }',
  'an update writes everything that it reports'
);
create temporary table before as select pg_temp.record('tap_sub') as record;
select is(
  pg_temp.apply(pg_temp.event('tap_3', 'deletion', 'tap_sub', 40, '{
    "report": {"customer_id": "cus_9"}
  }')),
  'applied',
  'a deletion is applied'
);
select is(
  pg_temp.record('tap_sub'),
  (select record from before)
    || jsonb_build_object(
      'status', 'canceled',
      'canceled_at', now(),
      'canceled_as_of', 7200000160000002
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
  (select canceled_at from billing.subscriptions where id = 'tap_sub'),
  now(),
  'a newer deletion sets it again'
);

-- Every column, each with another value.
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
    ) || '{"id": "tap_e"}'
  )
  from pg_attribute a
  where a.attrelid = 'billing.records'::regclass
$$;
select billing.write_records(array[pg_temp.record_of(1)]);
select is(
  (select r from billing.records r where r.id = 'tap_e'),
  pg_temp.record_of(1),
  'a new record is written in full'
);
select billing.write_records(array[pg_temp.record_of(2)]);
select is(
  (select r from billing.records r where r.id = 'tap_e'),
  pg_temp.record_of(2),
  'and a changed one'
);

-- Failed payments.
select is(
  pg_temp.apply(
    pg_temp.event('tap_p1', 'payment_failed', 'tap_other', 30, '{
      "payment": {
        "invoice_id": "in_1",
        "hosted_invoice_url": "https://pay.example.com/in_1",
        "amount_due": 9007199254740991,
        "currency": "eur",
        "attempt_count": 2,
        "next_payment_attempt": "2027-02-03T10:00:00Z"
      }
    }'),
    pg_temp.event('tap_p2', 'payment_failed', 'tap_other', null, '{
      "payment": {"invoice_id": "in_1"}
    }'),
    pg_temp.event('tap_p3', 'payment_failed', 'tap_other', 30)
  ),
  'applied, applied, applied',
  'failed payments are applied, also without details'
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
          'tap_p1',
          '{
            "occurred_at": "2027-01-15T08:00:30+00:00",
            "invoice_id": "in_1",
            "hosted_invoice_url": "https://pay.example.com/in_1",
            "amount_due": 9007199254740991,
            "currency": "eur",
            "attempt_count": 2,
            "next_payment_attempt": "2027-02-03T10:00:00+00:00"
          }'
        ),
        ('tap_p2', '{"invoice_id": "in_1"}'),
        ('tap_p3', '{"occurred_at": "2027-01-15T08:00:30+00:00"}')
    ) as d (event_id, details)
  $$,
  'each creates a notification to the account of the subscription, with what the event says'
);
select is(
  pg_temp.record('tap_other'),
  (select record from before) || '{
    "id": "tap_other",
    "status": "active",
    "plan_id": "plan_1",
    "customer_id": null,
    "quantity": null,
    "trial_end": null,
    "livemode": null,
    "items": null,
    "items_complete": null,
    "changed_in_second": null,
    "changed_as_of": 7200000040000000,
    "alive_as_of": 7200000040000000,
    "past_due_since": "2027-01-15T08:00:10+00:00",
    "past_due_as_of": "2027-01-15T08:00:10+00:00",
    "not_past_due_as_of": "2027-01-15T08:00:10+00:00",
    "unpaid_as_of": "2027-01-15T08:00:10+00:00"
  }',
  'and leaves the record, like the events of another subscription'
);
select is(
  pg_temp.apply(
    pg_temp.event('tap_p4', 'creation', 'tap_other', 20, '{"account_id": "acc_2"}'),
    pg_temp.event('tap_p5', 'payment_failed', 'tap_other', 40)
  ),
  'applied, applied',
  'a newer creation and a failed payment come together'
);
select is(
  (select account_id from billing.notifications where event_id = 'tap_p5'),
  'acc_2',
  'the notification goes to the account that has the subscription then'
);
select set_eq(
  $$select kind, count(*)::integer from billing.notifications group by kind$$,
  $$values ('payment_failed', 4)$$,
  'other kinds create no notification'
);

-- Other news, if NOTIFY asks for it.
select pg_temp.apply(pg_temp.event('tap_n0', 'creation', 'tap_news', 10));
create function pg_temp.news(
  event_id text,
  kind text,
  second numeric,
  told text,
  fields jsonb default '{}'
)
returns jsonb language sql
return pg_temp.event(
  event_id,
  kind,
  'tap_news',
  second,
  jsonb_build_object('payment', jsonb_build_object('kind', told)) || fields
);
create function pg_temp.status(status text, was text default null)
returns jsonb language sql
return pg_temp.report(jsonb_build_object('provider_status', status))
  || case when was is not null then jsonb_build_object(
    'previous', jsonb_build_object('provider_status', was)
  ) else '{}' end;
select is(
  pg_temp.apply(
    pg_temp.news('tap_n2', 'update', 30, 'recovered', pg_temp.status('active', 'past_due')),
    pg_temp.news('tap_n1', 'update', 40, 'recovered', pg_temp.status('active', 'past_due')),
    pg_temp.news('tap_n3', 'update', 50, 'recovered', pg_temp.status('active', 'trialing')),
    pg_temp.news('tap_n4', 'update', 60, 'recovered', pg_temp.status('unpaid')),
    pg_temp.news('tap_n5', 'update', 70, 'recovered', pg_temp.status('active')),
    pg_temp.news('tap_n6', 'notice', 5, 'trial_ending', '{
      "payment": {"kind": "trial_ending", "trial_end": "2027-02-01T00:00:00Z"}
    }')
  ),
  'applied, applied, applied, applied, applied, applied',
  'updates and a notice'
);
select pg_temp.apply(pg_temp.news(
  'tap_n7',
  'update',
  35,
  'recovered',
  pg_temp.status('active', 'past_due')
));
select pg_temp.apply(pg_temp.news('tap_n8', 'deletion', 80, 'ended'), pg_temp.news(
  'tap_n9',
  'deletion',
  90,
  'ended'
));
select set_eq(
  $$
    select concat_ws(' ', event_id, kind, account_id, trial_end is not null)
    from billing.notifications
    where subscription_id = 'tap_news'
  $$,
  array[
    'tap_n1 recovered acc_1 f',
    'tap_n2 recovered acc_1 f',
    'tap_n5 recovered acc_1 f',
    'tap_n6 trial_ending acc_1 t',
    'tap_n8 ended acc_1 f'
  ],
  'a change from late to paid, and an end, are told once; a stale update tells nothing'
);
select is(
  pg_temp.apply(pg_temp.news('tap_n8', 'deletion', 80, 'ended')),
  'duplicate',
  'a duplicate'
);
select is(
  (select count(*) from billing.notifications where subscription_id = 'tap_news'),
  5::bigint,
  'tells nothing more'
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
    pg_temp.once('tap_o1', 'in_1'),
    pg_temp.once('tap_o3', 'in_2', second => 52),
    pg_temp.once('tap_o2', 'in_2', second => 51),
    pg_temp.once('tap_o4', 'in_2', 'tap_gone'),
    pg_temp.once('tap_o5', null),
    pg_temp.once('tap_o6', null),
    pg_temp.once('tap_oa', 'in_2', told => 'action_required')
  ),
  'applied, applied, applied, failed BW001, applied, applied, applied',
  'with once_per_invoice, all are applied'
);
update billing.notifications
set status = case event_id when 'tap_o3' then 'sent' else 'withdrawn' end
where event_id in ('tap_o3', 'tap_oa');
select pg_temp.apply(pg_temp.once('tap_o7', 'in_2'), pg_temp.once(
  'tap_ob',
  'in_2',
  told => 'action_required'
));
select pg_temp.apply(
  pg_temp.event('tap_o8', 'creation', 'tap_other_b', 10, '{"provider": "b"}'),
  pg_temp.once('tap_o9', 'in_2', 'tap_other_b') || '{"provider": "b"}'
);
select set_eq(
  $$select event_id from billing.notifications where event_id like 'tap\_o%'$$,
  array['tap_o3', 'tap_o5', 'tap_o6', 'tap_o9', 'tap_oa', 'tap_ob'],
  'but only the first event of an invoice to arrive creates one of its kind, unless that was withdrawn, and every event without an invoice; each provider has its own'
);

-- The answers.
select is_empty(
  $$select * from public.billing_apply_events('[]')$$,
  'an empty array has no answer'
);
select results_eq(
  $$
    select *
    from public.billing_apply_events(jsonb_build_array(
      pg_temp.event('tap_a1', 'deletion', 'tap_a', 20) || '{"place": 1}',
      pg_temp.event('tap_a2', 'payment_failed', 'tap_none', 20) || '{"place": 2}',
      pg_temp.event('tap_a3', 'creation', 'tap_a', 10) || '{"place": 3}',
      pg_temp.event('tap_1', 'creation', 'tap_sub', 10) || '{"place": 4}',
      pg_temp.event('tap_a4', 'refund', 'tap_a', 10) || '{"place": 5, "something": "else"}',
      pg_temp.event('tap_a5', 'update', 'tap_sub', 5) || '{"place": 6}'
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
  pg_temp.record('tap_a') ->> 'status',
  'canceled',
  'what comes before its record is applied after it'
);
select is(
  pg_temp.apply(
    pg_temp.event('tap_a6', 'update', 'tap_a6', 30, pg_temp.report('{"plan_id": "plan_2"}')),
    pg_temp.event('tap_a7', 'creation', 'tap_a6', 40, pg_temp.report('{"plan_id": "plan_3"}')),
    pg_temp.event('tap_a8', 'update', 'tap_a6', null, pg_temp.report('{"plan_id": "plan_4"}')),
    pg_temp.event('tap_a9', 'update', 'tap_a6', 50)
  ) || ': ' || (pg_temp.record('tap_a6') ->> 'plan_id'),
  'stale, applied, applied, applied: plan_1',
  'the others in the order of the array, with a time or without'
);
select set_eq(
  $$select event_id, outcome from billing.processed_events where event_id like 'tap\_a_'$$,
  $$
    values
      ('tap_a1', 'applied'),
      ('tap_a3', 'applied'),
      ('tap_a5', 'stale'),
      ('tap_a6', 'stale'),
      ('tap_a7', 'applied'),
      ('tap_a8', 'applied'),
      ('tap_a9', 'applied')
  $$,
  'the ledger has what was applied and what was stale, and nothing that failed'
);

-- Duplicates.
update billing.processed_events
set processed_at = '2027-01-01T00:00:00Z'
where event_id in ('tap_1', 'tap_a5', 'tap_p1');
create temporary table before_duplicates as select pg_temp.record('tap_sub') as record;
select is(
  pg_temp.apply(
    pg_temp.event('tap_1', 'creation', 'tap_sub', 10),
    pg_temp.event('tap_a5', 'update', 'tap_sub', 5),
    pg_temp.event('tap_p1', 'payment_failed', 'tap_other', 30)
  ),
  'duplicate, duplicate, duplicate',
  'what was applied or stale is a duplicate when it comes again'
);
select is(
  pg_temp.apply(pg_temp.event('tap_1', 'update', 'tap_sub', 90), pg_temp.event(
    'tap_1',
    'update',
    'tap_nowhere',
    90
  )),
  'duplicate, duplicate',
  'so is another event with its id: nothing else of it is read'
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
      ('tap_a5', 'provider.update', 'stale'),
      ('tap_p1', 'provider.payment_failed', 'applied')
  $$,
  'and the ledger'
);
delete from billing.processed_events where event_id = 'tap_p1';
update billing.notifications set status = 'sent' where event_id = 'tap_p1';
select is(
  pg_temp.apply(pg_temp.event('tap_p1', 'payment_failed', 'tap_other', 30)),
  'applied',
  'a failed payment whose row was pruned from the ledger is applied again'
);
select results_eq(
  $$select status from billing.notifications where event_id = 'tap_p1'$$,
  $$values ('sent')$$,
  'but notifies nobody again'
);
select is(
  pg_temp.apply(
    pg_temp.event('tap_1', 'update', 'tap_other_b', 20, '{"provider": "b"}'),
    pg_temp.event('tap_d1', 'payment_failed', 'tap_other_b', 30, '{"provider": "b"}'),
    pg_temp.event('tap_d1', 'payment_failed', 'tap_other', 30)
  ),
  'applied, applied, applied',
  'events of two providers with the same id are different events'
);
select is(
  (select count(*)::integer from billing.notifications where event_id = 'tap_d1'),
  2,
  'and each creates its notification'
);

-- Copies in one array.
select is(
  pg_temp.apply(
    pg_temp.event('tap_c1', 'update', 'tap_other', 60, pg_temp.report('{"plan_id": "plan_first"}')),
    pg_temp.event('tap_c1', 'update', 'tap_other', 55, pg_temp.report('{
      "plan_id": "plan_second"
    }')),
    pg_temp.event('tap_c2', 'payment_failed', 'tap_other', 60),
    pg_temp.event('tap_c2', 'payment_failed', 'tap_other', 60)
  ),
  'applied, duplicate, applied, duplicate',
  'of copies, the first is applied and the others are duplicates'
);
select is(
  pg_temp.record('tap_other') ->> 'plan_id',
  'plan_first',
  'the first in the array, not in time'
);
select is(
  (select count(*)::integer from billing.notifications where event_id = 'tap_c2'),
  1,
  'copies create one notification'
);
select is(
  pg_temp.apply(
    pg_temp.event('tap_c3', 'deletion', 'tap_c', 10),
    pg_temp.event('tap_c4', 'creation', 'tap_c', 20),
    pg_temp.event('tap_c3', 'deletion', 'tap_c', 30)
  ),
  'applied, applied, duplicate',
  'also of one that comes before its record'
);
select is(
  (
    select a.error
    from public.billing_apply_events(jsonb_build_array(
      pg_temp.event('tap_c5', 'update', 'tap_none', 10) || '{"place": 1}',
      pg_temp.event('tap_c5', 'update', 'tap_none', 10) || '{"place": 2}'
    )) as a
    where a.place = 2
  ),
  'No subscription tap_none is recorded.',
  'a copy of an event that failed has failed in the same way'
);

-- Locks are taken in an order that keeps two calls from a deadlock.
reset role;
truncate claim_log;
set local role service_role;
select pg_temp.apply(
  pg_temp.event('tap_l3', 'payment_failed', 'tap_sub', 10),
  pg_temp.event('tap_l2', 'payment_failed', 'tap_other_b', 10, '{"provider": "b"}'),
  pg_temp.event('tap_l4', 'payment_failed', 'tap_a', 10),
  pg_temp.event('tap_l1', 'payment_failed', 'tap_other', 10)
);
select is(
  (select string_agg(claim, ', ' order by place) from claim_log),
  'a/tap_l1, a/tap_l3, a/tap_l4, b/tap_l2',
  'events are claimed by provider and id'
);
select is_empty(
  $$
    select id
    from unnest(array['tap_sub', 'tap_other', 'tap_other_b', 'tap_a', 'tap_none']) as id
    where hashtextextended(id, 0) not in (
      select (l.classid::bigint << 32) | l.objid::bigint
      from pg_locks l
      where l.locktype = 'advisory' and l.pid = pg_backend_pid() and l.granted
    )
  $$,
  'the subscription of every claimed event is locked until the end of the transaction, also if it has no record'
);

-- Failures.
select is(
  pg_temp.apply(
    pg_temp.event('tap_f1', 'creation', 'tap_f1', 10),
    pg_temp.event('tap_f2', 'update', 'tap_f2', 10),
    pg_temp.event('tap_f3', 'payment_failed', 'tap_sub', 10),
    pg_temp.event('tap_f4', 'update', 'tap_sub', 99, '{"provider": "b"}'),
    pg_temp.event('tap_f5', 'creation', 'tap_sub', 99, '{
      "provider": "b",
      "account_id": "acc_thief"
    }'),
    pg_temp.event('tap_f6', 'deletion', 'tap_f6', 10),
    pg_temp.event('tap_f7', 'payment_failed', 'tap_f7', 10),
    pg_temp.event('tap_f8', 'creation', 'tap_f8', 10, '{"account_id": null}')
  ),
  'applied, failed BW001, applied, failed BW002, failed BW002, failed BW001, failed BW001, failed BW005',
  'events that fail leave the others of the array alone'
);
select set_eq(
  $$select pg_temp.traces('tap_f')$$,
  array['ledger tap_f1', 'subscription tap_f1', 'ledger tap_f3', 'notification tap_f3'],
  'and leave nothing of themselves'
);
select is(
  pg_temp.record('tap_sub'),
  (select record from before_duplicates),
  'the other provider''s record stays as it is'
);
select is(
  pg_temp.apply(pg_temp.event('tap_f2', 'update', 'tap_f2', 20), pg_temp.event(
    'tap_f9',
    'creation',
    'tap_f2',
    10
  )),
  'applied, applied',
  'with its creation, an event that failed is applied'
);
select is(
  pg_temp.apply(pg_temp.event('tap_f2', 'update', 'tap_f2', 20)),
  'duplicate',
  'and is a duplicate from then on'
);

-- What the database refuses: each half of the array is applied by itself.
select is(
  pg_temp.apply(
    variadic (
      select array_agg(
        pg_temp.event(
          'tap_h' || i,
          'creation',
          'tap_h' || i,
          10,
          case i
            when 3 then pg_temp.report('{"plan_id": null}')
            when 8 then pg_temp.report('{"plan_id": ""}')
            when 9 then pg_temp.report('{"quantity": 2147483648}')
            when 12 then pg_temp.report('{"quantity": 2147483648}')
            else '{}'
          end
        ) order by i
      )
      from generate_series(1, 13) as i
    )
  ),
  'applied, applied, failed 23502, applied, applied, applied, applied, failed 23514, failed 22003, applied, applied, failed 22003, applied',
  'of thirteen, the four that are refused fail with their SQLSTATE, and the others are applied'
);
select set_eq(
  $$select pg_temp.traces('tap_h')$$,
  $$
    select kind || i
    from generate_series(1, 13) as i, unnest(array['ledger tap_h', 'subscription tap_h']) as kind
    where i not in (3, 8, 9, 12)
  $$,
  'each has its record and its row in the ledger, or neither'
);
select is(
  pg_temp.apply(
    pg_temp.event('tap_h1', 'creation', 'tap_h1', 10),
    pg_temp.event('tap_i1', 'update', 'tap_h1', 20, pg_temp.report('{"plan_id": ""}')),
    pg_temp.event('tap_i2', 'update', 'tap_h1', 30, pg_temp.report('{"plan_id": "plan_2"}')),
    pg_temp.event('tap_i3', 'payment_failed', 'tap_h2', 10, '{
      "payment": {"amount_due": 9223372036854775808}
    }'),
    pg_temp.event('tap_i4', 'update', 'tap_none', 10),
    pg_temp.event('tap_i2', 'update', 'tap_h1', 30)
  ),
  'duplicate, applied, applied, failed 22003, failed BW001, duplicate',
  'a record is written once per call, so that a value that no record may have fails only if it is the last'
);
select is(pg_temp.record('tap_h1') ->> 'plan_id', 'plan_2', 'the record has the newest');
select is(
  pg_temp.apply(
    pg_temp.event('tap_i5', 'creation', 'tap_i5', 10, '{"account_id": ""}'),
    pg_temp.event('tap_i5', 'creation', 'tap_i5', 10, '{"provider": "b"}')
  ),
  'failed 23514, applied',
  'of one id, the provider whose event failed loses its claim'
);
select is(
  (select string_agg(provider, ', ') from billing.processed_events where event_id = 'tap_i5'),
  'b',
  'and the other keeps it'
);

create function pg_temp.spring_trap(sqlstate_of_trap text)
returns text language plpgsql as $$
begin
  perform set_config('tap.sqlstate', sqlstate_of_trap, true);
  return pg_temp.apply(
    pg_temp.event('tap_t1_' || sqlstate_of_trap, 'payment_failed', 'tap_sub', 10),
    pg_temp.event('tap_t2_' || sqlstate_of_trap, 'update', 'tap_other', 99, pg_temp.report('{"plan_id": "plan_trap"}')),
    pg_temp.event('tap_t3_' || sqlstate_of_trap, 'creation', 'tap_t4_' || sqlstate_of_trap, 10)
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
    ('55P03', 'a lock that somebody else has'),
    ('P0001', 'an exception of a trigger'),
    ('P0004', 'an assertion of a trigger'),
    ('XX000', 'an internal error'),
    ('40001', 'a serialization failure'),
    ('53200', 'no memory')
) as s (code, meaning);
select is_empty($$select pg_temp.traces('tap_t2_')$$, 'it has no claim');
select is(
  pg_temp.record('tap_other'),
  (select record from before_traps),
  'and what it had written is undone'
);
select is(
  pg_temp.spring_trap('57014'),
  'raised 57014',
  'a statement that took too long fails the whole call'
);
select is_empty(
  $$select t from pg_temp.traces('tap_t') as t where t ~ '57014$'$$,
  'then nothing of the good events is left either'
);

-- What an app adds to the table.
reset role;
create constraint trigger late_trap after update on billing.subscriptions deferrable initially deferred
for each row when (new.plan_id = 'plan_late') execute function pg_temp.trap();
set local role service_role;
select set_config('tap.sqlstate', 'P0001', true);
select is(
  pg_temp.apply(
    pg_temp.event('tap_late1', 'creation', 'tap_late', 10),
    pg_temp.event('tap_late2', 'update', 'tap_other', 99, pg_temp.report('{
      "plan_id": "plan_late"
    }')),
    pg_temp.event('tap_late3', 'update', 'tap_late', 20)
  ),
  'applied, failed P0001, applied',
  'what an app checks only at the end of a transaction fails the one event, too'
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
returns text language sql stable set search_path = '' set check_function_bodies = off as 'select account_id from tap_accounts';
set local role service_role;
select matches(
  pg_temp.lacks(pg_temp.event(
    'tap_lacks1',
    'update',
    'tap_late',
    30,
    pg_temp.report('{"plan_id": "plan_count"}')
  )),
  '^BW008 pg_temp_\d+\.count_up raised 42P01: relation "tap_counters" does not exist$',
  'what a trigger of the app lacks is not taken for a part of the schema: its search_path is empty'
);
select matches(
  pg_temp.lacks(pg_temp.event(
    'tap_lacks2',
    'creation',
    'tap_lacks2',
    30,
    pg_temp.report('{"customer_id": "tap_c"}') || '{"account_id": null}'
  )),
  '^BW008 account_of_customer raised 42P01: ',
  'nor what its own function of accounts lacks'
);
reset role;
create or replace function billing.account_of_customer(provider text, customer_id text)
returns text language plpgsql stable set search_path = '' as 'begin return (select account_id from tap_accounts); end';
set local role service_role;
select matches(
  pg_temp.lacks(pg_temp.event(
    'tap_lacks3',
    'creation',
    'tap_lacks3',
    30,
    pg_temp.report('{"customer_id": "tap_c"}') || '{"account_id": null}'
  )),
  '^BW008 billing.account_of_customer raised 42P01: ',
  'in whatever language'
);
reset role;
alter table billing.subscriptions add column r text default 'app', add column record text, add column events text;
create function pg_temp.stamp()
returns trigger language plpgsql as $$
begin
  new.record := concat(new.record, tg_op, ' ', current_setting('lock_timeout')::interval <= '20 ms', ' ');
  return new;
end;
$$;
create trigger stamp before insert or update on billing.subscriptions for each row execute function pg_temp.stamp();
set local role service_role;
select is(
  pg_temp.apply(
    pg_temp.event('tap_x1', 'creation', 'tap_x', 10),
    pg_temp.event('tap_x2', 'update', 'tap_x', 20),
    pg_temp.event('tap_x3', 'payment_failed', 'tap_x', 20)
  ),
  'applied, applied, applied',
  'columns of the app may have any name, and triggers may change a row'
);
select pg_temp.apply(pg_temp.event('tap_x4', 'update', 'tap_x', 30));
select pg_temp.apply(
  pg_temp.event('tap_x5', 'payment_failed', 'tap_x', 30),
  pg_temp.event('tap_x6', 'update', 'tap_x', 25)
);
select is(
  (select r || ' ' || record from billing.subscriptions where id = 'tap_x'),
  'app INSERT t UPDATE t ',
  'a call writes a record once, and only if it changed; then it waits for no lock of the app''s for long'
);

-- A record that an operator gives to another account.
update billing.subscriptions set account_id = 'acc_moved' where id = 'tap_x';
select pg_temp.apply(
  pg_temp.event('tap_x1', 'creation', 'tap_x', 10),
  pg_temp.event('tap_x7', 'update', 'tap_x', 50),
  pg_temp.event('tap_x8', 'deletion', 'tap_x', 60)
);
select is(
  (select account_id || ' ' || status from billing.subscriptions where id = 'tap_x'),
  'acc_moved canceled',
  'later events, and its creation again, leave it there'
);

-- What is only tried.
create function pg_temp.try_out(e jsonb)
returns text language sql as $$
  select concat_ws(' ', t.outcome, t.error_code) from public.billing_try_event(e) as t
$$;
select is(
  pg_temp.try_out(pg_temp.event('tap_y1', 'creation', 'tap_y', 10)),
  'applied',
  'a creation would be applied'
);
select is(
  pg_temp.try_out(pg_temp.event('tap_y2', 'payment_failed', 'tap_x', 40)),
  'applied',
  'so would a failed payment'
);
select is(
  pg_temp.try_out(pg_temp.event('tap_y3', 'update', 'tap_y', 20)),
  'failed BW001',
  'an update of an unknown subscription would fail'
);
select is(
  pg_temp.try_out(pg_temp.event('tap_x4', 'update', 'tap_x', 30)),
  'duplicate',
  'one that was applied is a duplicate'
);
select is_empty($$select pg_temp.traces('tap_y')$$, 'nothing of it stays');
select public.billing_record_failed_event(jsonb_build_object(
  'provider', 'a',
  'event_id', 'tap_y4',
  'body', '{}',
  'body_encoding', 'text',
  'error_code', 'x',
  'error', 'x'
));
update billing.failed_events set payload = '{"n": 1}' where event_id = 'tap_y4';
select is(
  pg_temp.try_out(pg_temp.event('tap_y4', 'creation', 'tap_y', 10)),
  'applied',
  'a repaired event would be applied by its retry'
);
select ok(
  (
    select original_payload is not null and resolved_at is null
    from billing.failed_events
    where event_id = 'tap_y4'
  ),
  'and stays repaired and open'
);
select * from finish();
rollback;
