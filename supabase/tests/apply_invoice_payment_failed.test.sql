/*
 * invoice.payment_failed: what the notification says, and how many there are of
 * one invoice.
 */
begin;
select plan(17);
set local timezone = 'UTC';
set local role service_role;

select is(
  public.apply_subscription_created('a', now(), 'tap_sub', 'acc_1', 'plan_1', now()),
  'applied', 'there is a subscription'
);
select is(
  public.apply_subscription_created('b', now(), 'tap_sub_b', 'acc_2', 'plan_1', now()),
  'applied', 'and one of the other provider'
);

create function pg_temp.row_of(p_event_id text)
returns jsonb
language sql
as $$
  select to_jsonb(n) from public.notifications n where n.event_id = p_event_id
$$;

-- What it says.

select is(
  public.apply_invoice_payment_failed(
    'a', 'tap_1', 'tap_sub', 'tap_in_1', 'https://pay.example.com/in_1', 9007199254740991, 'eur', 2,
    '2026-05-03T10:00:00Z', false
  ),
  'applied', 'an invoice with all details is applied'
);
select is(
  (
    select jsonb_build_array(
      r ->> 'account_id', r ->> 'invoice_id', r ->> 'hosted_invoice_url', r -> 'amount_due',
      r ->> 'currency', r -> 'attempt_count', r ->> 'next_payment_attempt', r ->> 'status'
    )
    from pg_temp.row_of('tap_1') as r
  ),
  '[
    "acc_1", "tap_in_1", "https://pay.example.com/in_1", 9007199254740991, "eur", 2,
    "2026-05-03T10:00:00+00:00", "pending"
  ]',
  'the notification has all of it'
);
select is(
  public.apply_invoice_payment_failed('a', 'tap_2', 'tap_sub', 'tap_in_1'), 'applied',
  'a caller that knows nothing of the details is served'
);
select is(
  (
    select jsonb_build_array(
      r -> 'hosted_invoice_url', r -> 'amount_due', r -> 'currency', r -> 'attempt_count',
      r -> 'next_payment_attempt'
    )
    from pg_temp.row_of('tap_2') as r
  ),
  '[null, null, null, null, null]',
  'the notification has none of it'
);

-- Once per invoice.

create function pg_temp.count_of(p_provider text, p_invoice_id text)
returns integer
language sql
volatile
as $$
  select count(*)::integer from public.notifications n
  where n.provider = p_provider and n.invoice_id is not distinct from p_invoice_id
$$;

create function pg_temp.fail_once(
  p_event_id text,
  p_invoice_id text,
  p_provider text default 'a',
  p_subscription_id text default 'tap_sub'
)
returns text
language plpgsql
as $$
begin
  return public.apply_invoice_payment_failed(
    p_provider, p_event_id, p_subscription_id, p_invoice_id, p_once_per_invoice => true
  ) || ' ' || pg_temp.count_of(p_provider, p_invoice_id);
end;
$$;

select is(
  (select count(*)::integer from public.notifications where invoice_id = 'tap_in_1'), 2,
  'by default, every failed payment of an invoice has a notification'
);
select is(pg_temp.fail_once('tap_3', 'tap_in_1'), 'applied 2', 'once per invoice, a further one has none');
select is(pg_temp.fail_once('tap_4', 'tap_in_2'), 'applied 1', 'the first of an invoice has one');
select is(pg_temp.fail_once('tap_5', 'tap_in_2'), 'applied 1', 'the second has none');
select is(
  public.apply_invoice_payment_failed('a', 'tap_6', 'tap_sub', 'tap_in_2'), 'applied',
  'without the setting, a further one is applied'
);
select isnt(pg_temp.row_of('tap_6'), null, 'and has one again');
select is(
  pg_temp.fail_once('tap_7', 'tap_in_2', 'b', 'tap_sub_b'), 'applied 1',
  'an invoice of the other provider is another invoice'
);
select is(pg_temp.fail_once('tap_8', null), 'applied 1', 'an invoice without an id has one');
select is(pg_temp.fail_once('tap_9', null), 'applied 2', 'and so has the next: it may be another');
update public.notifications set status = 'sent', sent_at = now() where event_id = 'tap_4';
select is(pg_temp.fail_once('tap_10', 'tap_in_2'), 'applied 2', 'one that was sent counts too');

-- The search uses the index, however large the outbox is.
set local enable_seqscan = off;
create function pg_temp.plan_of_search()
returns setof text
language plpgsql
as $$
begin
  return query execute
    $q$explain select from public.notifications n where n.provider = 'a' and n.invoice_id = 'in_1'$q$;
end;
$$;
select matches(
  (select string_agg(line, ' ') from pg_temp.plan_of_search() as line), 'notifications_invoice',
  'one invoice is found by an index'
);

select * from finish();
rollback;
