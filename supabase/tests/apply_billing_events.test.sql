/*
 * apply_billing_events: what each type of event does, to every column, and
 * what comes back. The order of events is in ordering.test.sql, repetition in
 * idempotency.test.sql, failure in failures.test.sql.
 */
begin;
select plan(32);
set local timezone = 'UTC';

-- The answer in the order of the places, such as 'applied, failed BW001'.
create function pg_temp.apply(variadic p_events jsonb[])
returns text
language sql
as $$
  select string_agg(concat_ws(' ', a.outcome, a.error_code), ', ' order by a.place)
  from public.apply_billing_events(to_jsonb(p_events)) as a
$$;

create function pg_temp.created(p_event_id text, p_subscription_id text, p_fields jsonb default '{}')
returns jsonb
language sql
as $$
  select jsonb_build_object(
    'provider', 'a', 'event_id', p_event_id, 'type', 'customer.subscription.created',
    'created', '2027-01-15T08:00:10.000Z', 'subscription_id', p_subscription_id,
    'account_id', 'acc_1', 'plan_id', 'plan_1', 'current_period_end', '2027-02-01T00:00:00.000Z',
    'provider_status', 'trialing', 'customer_id', 'cus_1', 'quantity', 5,
    'cancel_at', '2027-02-01T00:00:00.000Z', 'trial_end', '2027-01-22T00:00:00.000Z',
    'paused', 'void', 'livemode', true
  ) || p_fields
$$;

create function pg_temp.invoice(p_event_id text, p_subscription_id text, p_fields jsonb default '{}')
returns jsonb
language sql
as $$
  select jsonb_build_object(
    'provider', 'a', 'event_id', p_event_id, 'type', 'invoice.payment_failed',
    'created', '2027-01-15T08:00:30.000Z', 'subscription_id', p_subscription_id
  ) || p_fields
$$;

create function pg_temp.record(p_subscription_id text)
returns jsonb
language sql
as $$
  select to_jsonb(s) from public.subscriptions s where s.id = p_subscription_id
$$;

set local role service_role;

-- customer.subscription.created

select is(
  pg_temp.apply(
    pg_temp.created('tap_1', 'tap_sub'),
    pg_temp.created('tap_2', 'tap_other')
  ),
  'applied, applied',
  'a creation is applied'
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
    "cancel_at": "2027-02-01T00:00:00+00:00",
    "trial_end": "2027-01-22T00:00:00+00:00",
    "paused": "void",
    "livemode": true,
    "past_due_since": null,
    "account_as_of": "2027-01-15T08:00:10+00:00",
    "changed_as_of": "2027-01-15T08:00:10+00:00",
    "changed_by_update": false,
    "changed_in_second": {},
    "canceled_as_of": null
  }',
  'a creation makes a record that is active, with all that the event reports'
);
select is(
  (select to_jsonb(p) from public.processed_events p where p.event_id = 'tap_1'),
  jsonb_build_object(
    'provider', 'a', 'event_id', 'tap_1', 'type', 'customer.subscription.created',
    'outcome', 'applied', 'processed_at', now()
  ),
  'an event that was applied is in the ledger'
);

-- customer.subscription.updated

select is(
  pg_temp.apply('{
    "provider": "a", "event_id": "tap_3", "type": "customer.subscription.updated",
    "created": "2027-01-15T08:00:20.000Z", "subscription_id": "tap_sub",
    "status": "past_due", "plan_id": "plan_2", "current_period_end": "2027-03-01T00:00:00.000Z",
    "provider_status": "past_due", "customer_id": "cus_2", "quantity": 6, "cancel_at": null,
    "trial_end": "2027-01-23T00:00:00.000Z", "livemode": false,
    "previous": {
      "status": "active", "plan_id": "plan_1", "current_period_end": 1801440000,
      "provider_status": "active", "paused": "void", "trial_end": null
    }
  }'),
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
    "current_period_end": "2027-03-01T00:00:00+00:00",
    "canceled_at": null,
    "provider_status": "past_due",
    "customer_id": "cus_2",
    "quantity": 6,
    "cancel_at": null,
    "trial_end": "2027-01-23T00:00:00+00:00",
    "paused": null,
    "livemode": false,
    "past_due_since": "2027-01-15T08:00:20+00:00",
    "account_as_of": "2027-01-15T08:00:10+00:00",
    "changed_as_of": "2027-01-15T08:00:20+00:00",
    "changed_by_update": true,
    "changed_in_second": {
      "status": "active",
      "plan_id": "plan_1",
      "current_period_end": 1801440000,
      "provider_status": "active",
      "paused": "void",
      "trial_end": null
    },
    "canceled_as_of": null
  }',
  'an update copies all that it reports, null where it reports nothing, and leaves account and cancellation alone'
);

-- invoice.payment_failed

select is(
  pg_temp.apply(pg_temp.invoice('tap_4', 'tap_sub', '{
    "invoice_id": "in_1", "hosted_invoice_url": "https://pay.example.com/in_1", "amount_due": 1234,
    "currency": "eur", "attempt_count": 2, "next_payment_attempt": "2027-02-03T10:00:00Z"
  }')),
  'applied',
  'a failed invoice is applied'
);
select is(
  pg_temp.record('tap_sub') ->> 'status', 'past_due',
  'a failed invoice leaves the status alone'
);
select is(
  pg_temp.record('tap_sub') ->> 'changed_as_of', '2027-01-15T08:00:20+00:00',
  'a failed invoice has no part in the order of changes'
);
select results_eq(
  $$select jsonb_strip_nulls(to_jsonb(n) - 'id') from public.notifications n where n.event_id = 'tap_4'$$,
  $$select jsonb_build_object(
    'provider', 'a', 'event_id', 'tap_4', 'account_id', 'acc_1', 'subscription_id', 'tap_sub',
    'invoice_id', 'in_1', 'kind', 'payment_failed', 'status', 'pending', 'attempts', 0,
    'next_attempt_at', now(), 'created_at', now(),
    'hosted_invoice_url', 'https://pay.example.com/in_1', 'amount_due', 1234, 'currency', 'eur',
    'attempt_count', 2, 'next_payment_attempt', '2027-02-03T10:00:00Z'::timestamptz
  )$$,
  'a failed invoice owes the account of the subscription one notification'
);
select is(
  pg_temp.apply(pg_temp.invoice('tap_5', 'tap_sub', '{"invoice_id": "in_1"}')),
  'applied',
  'a second failure of the same invoice is an event of its own'
);
select is(
  (select count(distinct id)::int from public.notifications where subscription_id = 'tap_sub'),
  2,
  'each failed-invoice event owes a notification of its own'
);
select is(
  pg_temp.apply(pg_temp.invoice('tap_6', 'tap_sub')),
  'applied',
  'a failed invoice may leave its own id out'
);
select is(
  (select jsonb_build_array(status, invoice_id) from public.notifications where event_id = 'tap_6'),
  '["pending", null]',
  'a failed invoice without an id owes a notification all the same'
);

-- customer.subscription.deleted

select is(
  pg_temp.apply('{
    "provider": "a", "event_id": "tap_7", "type": "customer.subscription.deleted",
    "created": "2027-01-15T08:00:40.000Z", "subscription_id": "tap_sub"
  }'),
  'applied',
  'a deletion is applied'
);
select is(
  pg_temp.record('tap_sub'),
  '{
    "id": "tap_sub",
    "provider": "a",
    "account_id": "acc_1",
    "status": "canceled",
    "plan_id": "plan_2",
    "current_period_end": "2027-03-01T00:00:00+00:00",
    "provider_status": "past_due",
    "customer_id": "cus_2",
    "quantity": 6,
    "cancel_at": null,
    "trial_end": "2027-01-23T00:00:00+00:00",
    "paused": null,
    "livemode": false,
    "past_due_since": "2027-01-15T08:00:20+00:00",
    "account_as_of": "2027-01-15T08:00:10+00:00",
    "changed_as_of": "2027-01-15T08:00:20+00:00",
    "changed_by_update": true,
    "changed_in_second": {
      "status": "active",
      "plan_id": "plan_1",
      "current_period_end": 1801440000,
      "provider_status": "active",
      "paused": "void",
      "trial_end": null
    },
    "canceled_as_of": "2027-01-15T08:00:40+00:00"
  }'::jsonb || jsonb_build_object('canceled_at', now()),
  'a deletion sets canceled and the time of handling, and keeps everything else'
);
select is(
  pg_temp.apply(pg_temp.invoice('tap_8', 'tap_sub')),
  'applied',
  'a failed invoice of a canceled subscription is applied'
);
select is(
  pg_temp.record('tap_sub') ->> 'status', 'canceled',
  'a failed invoice does not bring a canceled subscription back'
);
select is(
  pg_temp.record('tap_other'),
  pg_temp.record('tap_sub') || '{
    "id": "tap_other",
    "status": "active",
    "plan_id": "plan_1",
    "current_period_end": "2027-02-01T00:00:00+00:00",
    "canceled_at": null,
    "provider_status": "trialing",
    "customer_id": "cus_1",
    "quantity": 5,
    "cancel_at": "2027-02-01T00:00:00+00:00",
    "trial_end": "2027-01-22T00:00:00+00:00",
    "paused": "void",
    "livemode": true,
    "past_due_since": null,
    "changed_as_of": "2027-01-15T08:00:10+00:00",
    "changed_by_update": false,
    "changed_in_second": {},
    "canceled_as_of": null
  }',
  'another subscription is as its creation left it after all of these'
);
select is_empty(
  $$select event_id from public.failed_events where event_id like 'tap\_%'$$,
  'events that are applied leave nothing in failed_events'
);
select is_empty(
  $$select event_id from public.notifications
    where event_id in ('tap_1', 'tap_2', 'tap_3', 'tap_7')$$,
  'events other than failed invoices owe no notification'
);

-- An owner that has changed.

select is(
  pg_temp.apply(
    pg_temp.created('tap_9', 'tap_other', '{"created": "2027-01-15T08:00:20Z", "account_id": "acc_2"}'),
    pg_temp.invoice('tap_10', 'tap_other')
  ),
  'applied, applied',
  'a newer creation and a failed invoice are applied together'
);
select is(
  (select account_id from public.notifications where event_id = 'tap_10'), 'acc_2',
  'the notification goes to the account that owns the subscription by then'
);

-- A second creation.

select is(
  pg_temp.apply(
    '{
      "provider": "a", "event_id": "tap_17", "type": "customer.subscription.created",
      "created": "2027-01-15T08:01:00.000Z", "subscription_id": "tap_sub",
      "account_id": "acc_3", "plan_id": "plan_3", "current_period_end": "2027-04-01T00:00:00.000Z"
    }'
  ),
  'applied',
  'a newer creation of a subscription that is there is applied'
);
select is(
  pg_temp.record('tap_sub'),
  '{
    "id": "tap_sub",
    "provider": "a",
    "account_id": "acc_3",
    "status": "active",
    "plan_id": "plan_3",
    "current_period_end": "2027-04-01T00:00:00+00:00",
    "provider_status": null,
    "customer_id": null,
    "quantity": null,
    "cancel_at": null,
    "trial_end": null,
    "paused": null,
    "livemode": null,
    "past_due_since": "2027-01-15T08:00:20+00:00",
    "account_as_of": "2027-01-15T08:01:00+00:00",
    "changed_as_of": "2027-01-15T08:01:00+00:00",
    "changed_by_update": false,
    "changed_in_second": {},
    "canceled_as_of": "2027-01-15T08:00:40+00:00"
  }'::jsonb || jsonb_build_object('canceled_at', now()),
  'it replaces everything but the traces of the deletion'
);

-- What comes back.

select is_empty(
  $$select * from public.apply_billing_events('[]')$$,
  'an empty array is answered with nothing'
);
select is(
  pg_temp.apply(pg_temp.invoice('tap_11', 'tap_sub', '{"type": "payment_intent.payment_failed"}')),
  'failed BW003',
  'a type that no function applies fails with BW003'
);
select is(
  (select error from public.apply_billing_events(jsonb_build_array(
    pg_temp.invoice('tap_11', 'tap_sub', '{"type": "payment_intent.payment_failed"}')
  ))),
  'No function applies events of type payment_intent.payment_failed.',
  'the message of BW003 names the type'
);
select is_empty(
  $$select event_id from public.processed_events where event_id = 'tap_11'
    union all select event_id from public.notifications where event_id = 'tap_11'$$,
  'an event of such a type leaves nothing behind'
);

-- Sorted for locking, the events are applied in an order other than that of
-- the array, here backwards: the deletion comes first in it.
select results_eq(
  $$select place, outcome, error_code
    from public.apply_billing_events(jsonb_build_array(
      pg_temp.invoice('tap_12', 'tap_sub_z', '{"type": "customer.subscription.deleted"}'),
      pg_temp.invoice('tap_13', 'tap_sub_y'),
      pg_temp.created('tap_14', 'tap_sub_z'),
      pg_temp.created('tap_1', 'tap_sub')
    ))
    order by place$$,
  $$values
    (1, 'applied', null),
    (2, 'failed', 'BW001'),
    (3, 'applied', null),
    (4, 'duplicate', null)$$,
  'each event of an array gets one answer, under its place in the array from 1'
);
select is(
  pg_temp.record('tap_sub_z') ->> 'status', 'canceled',
  'an array is applied in the order of event times, whatever its own'
);
select is(
  (select error is null from public.apply_billing_events(jsonb_build_array(
    pg_temp.created('tap_15', 'tap_sub_x')
  ))),
  true,
  'an answer without failure carries no message'
);
select is(
  pg_temp.apply(pg_temp.created('tap_16', 'tap_sub_w', '{"something": "else", "account_id": "''; drop table x; --"}')),
  'applied',
  'fields that nobody asked for are ignored, and text is only ever text'
);

select * from finish();
rollback;
