/*
 * public.billing_has_access case by case. Who may ask is in privileges.test.sql, and in
 * tests/integration/app.test.ts, with the grants and policies of docs/app.md.
 */
begin;
select plan(38);

-- `fields` are those of an active subscription of acc_1; its times are given as intervals from now.
create function pg_temp.has_access(fields jsonb, grace interval default '0')
returns boolean language plpgsql as $$
declare
  times constant jsonb := (
    select jsonb_object_agg(name, now() + value::interval)
    from jsonb_each_text('{"current_period_end": "20 days"}' || fields) as f (name, value)
    where name ~ '_(at|end|since|until)$'
  );
begin
  delete from billing.subscriptions where account_id = 'acc_1';
  insert into billing.subscriptions
  select s.*
  from jsonb_populate_record(null::billing.subscriptions, '{
    "id": "sub_1", "provider": "a", "account_id": "acc_1", "plan_id": "price_pro",
    "status": "active", "provider_status": "active"
  }' || fields || times) as s;
  return public.billing_has_access('acc_1', grace);
end;
$$;

-- Only Postgres 17 has the interval infinity.
create function pg_temp.forever()
returns interval language sql
return case
  when current_setting('server_version_num')::integer < 170000 then '9999 years'
  else 'infinity'
end::interval;

select is(pg_temp.has_access(c.fields::jsonb, c.grace), c.has_access, c.why)
from (
  values
    (true, '{}', interval '0', 'a paid subscription has access'),
    (true, '{"provider_status": "trialing"}', '0', 'a trial has access'),
    (false, '{"provider_status": "incomplete"}', '1 year', 'there is no access before the first payment'),
    (false, '{"status": "incomplete_expired", "provider_status": "incomplete_expired"}', '1 year',
      'there is no access if the first payment was never made'),
    (true, '{"provider_status": null}', '0', 'a record without a report has access'),
    (true, '{"status": "past_due"}', '0', 'the provider''s status decides, if there is one'),
    (false, '{"status": "on_hold", "provider_status": "on_hold"}', '1 year', 'an unknown status has no access'),
    (true, '{}', null, 'a grace of null takes nothing away'),
    (true, '{"current_period_end": "-1 hour"}', '0', 'a renewal whose event is late has access'),
    (true, '{"cancel_at": "1 second"}', '0', 'there is access before cancel_at'),
    (false, '{"cancel_at": "0"}', '1 year', 'there is no access from cancel_at on'),
    (false, '{"status": "canceled"}', '1 year', 'a deleted subscription has no access'),
    (false, '{"status": "unpaid", "provider_status": "unpaid"}', '1 year', 'an unpaid one has no access'),
    (false, '{"status": "paused", "provider_status": "paused"}', '1 year', 'a paused one has no access'),
    (false, '{"paused": "void"}', '1 year', 'there is no access while invoices are voided'),
    (false, '{"paused": "void", "paused_until": "1 minute"}', '1 year', 'there is none before paused_until'),
    (true, '{"paused": "void", "paused_until": "0"}', '0', 'there is access from paused_until on'),
    (true, '{"paused": "keep_as_draft"}', '0', 'there is access while invoices are kept as drafts'),
    (true, '{"paused": "mark_uncollectible"}', '0', 'there is access while invoices are given up'),
    (false, '{"provider_status": "past_due", "past_due_since": "0"}', '0', 'past_due has no access without a grace'),
    (false, '{"provider_status": "past_due", "past_due_since": "5 minutes"}', '0',
      'past_due has no access if the provider''s clock is ahead'),
    (true, '{"provider_status": "past_due", "past_due_since": "-71 hours"}', '72 hours', 'a grace gives access'),
    (false, '{"provider_status": "past_due", "past_due_since": "-72 hours"}', '72 hours', 'a grace ends'),
    (false, '{"provider_status": "past_due", "paused": "void", "past_due_since": "-1 hour"}', '72 hours',
      'a grace gives no access while invoices are voided'),
    (true, '{"provider_status": "past_due", "past_due_since": "-9 years"}', pg_temp.forever(),
      'a grace may have no end'),
    (false, '{"provider_status": "past_due", "past_due_since": "-1 hour"}', null, 'a grace of null gives no access'),
    (true, '{}', '-3 days', 'a grace below 0 takes nothing away'),
    (true, '{"provider_status": "past_due", "current_period_end": "-71 hours"}', '72 hours',
      'without past_due_since, a grace begins with the end of the period'),
    (false, '{"provider_status": "past_due", "current_period_end": "-73 hours"}', '72 hours',
      'without past_due_since, a grace ends'),
    (true, '{"provider_status": "past_due", "current_period_end": "1 hour"}', '1 minute',
      'without past_due_since, a grace does not begin before the end of the period'),
    (false, '{"provider_status": "past_due", "current_period_end": null}', '1 year',
      'without past_due_since and a period, there is no grace')
) as c (has_access, fields, grace, why);

-- Other accounts, and another subscription.
select pg_temp.has_access('{"provider_status": "past_due", "past_due_since": "0"}');
select ok(
  not public.billing_has_access('acc_1') and public.billing_has_access('acc_1', '1 second'),
  'by default, there is no grace'
);
select is(public.billing_has_access(a, '1 year'), false, format('the account %L has no access', a))
from unnest(array[null, '', 'acc_nobody', ' acc_1']) as a;

select pg_temp.has_access('{"status": "canceled"}');
insert into billing.subscriptions (id, provider, account_id, status, plan_id)
values
  ('sub_2', 'b', 'acc_1', 'active', 'price_pro'),
  ('sub_3', 'a', 'acc_2', 'unpaid', 'price_pro');
select ok(public.billing_has_access('acc_1'), 'one subscription that counts is enough');
select ok(
  not public.billing_has_access('acc_2'),
  'a subscription of another account does not count'
);

select * from finish();
rollback;
