/*
 * public.billing_has_access case by case. Who may ask is in privileges.test.sql, and in
 * tests/integration/app.test.ts, with the grants and policies of docs/app.md.
 */
begin;
select plan(38);

create function pg_temp.has_access(fields jsonb, grace interval default '0')
returns boolean language plpgsql as $$
begin
  delete from billing.subscriptions where account_id = 'acc_1';
  insert into billing.subscriptions
  select s.* from jsonb_populate_record(null::billing.subscriptions, jsonb_build_object(
    'id', 'sub_1', 'provider', 'a', 'account_id', 'acc_1', 'plan_id', 'price_pro', 'status', 'active', 'provider_status', 'active',
    'current_period_end', now() + interval '20 days'
  ) || fields) as s;
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

select is(
  pg_temp.has_access(
    c.fields::jsonb
      || case when c.field is not null then jsonb_build_object(
        c.field, now() + c.after
      ) else '{}' end,
    c.grace
  ),
  c.has_access,
  c.why
)
from (
  values
    (true, '{}', null, null::interval, interval '0', 'a subscription that is paid'),
    (true, '{"provider_status": "trialing"}', null, null, '0', 'a trial that was just created'),
    (false, '{"provider_status": "incomplete"}', null, null, '1 year',
      'not before the first payment, although a creation is active'),
    (false, '{"status": "incomplete_expired", "provider_status": "incomplete_expired"}', null, null, '1 year',
      'nor if it was never made'),
    (true, '{"provider_status": null}', null, null, '0', 'a record without a report'),
    (true, '{"status": "past_due"}', null, null, '0', 'by the provider''s status, if there is one'),
    (false, '{"status": "on_hold", "provider_status": "on_hold"}', null, null, '1 year',
      'not by a status that nobody knows'),
    (true, '{}', null, null, null, 'a grace of null is none'),
    (true, '{}', 'current_period_end', '-1 hour', '0', 'a renewal whose event is late'),
    (true, '{}', 'cancel_at', '1 second', '0', 'canceled, but not yet'),
    (false, '{}', 'cancel_at', '0', '1 year', 'not from the time on at which it ends, although the deletion is late'),
    (false, '{"status": "canceled"}', null, null, '1 year', 'not after the deletion, which leaves provider_status'),
    (false, '{"status": "unpaid", "provider_status": "unpaid"}', null, null, '1 year',
      'not after the last attempt to collect the payment'),
    (false, '{"status": "paused", "provider_status": "paused"}', null, null, '1 year',
      'not after a trial without a payment method'),
    (false, '{"paused": "void"}', null, null, '1 year', 'not while invoices are voided'),
    (false, '{"paused": "void"}', 'paused_until', '1 minute', '1 year', 'until they are not'),
    (true, '{"paused": "void"}', 'paused_until', '0', '0', 'from then on'),
    (true, '{"paused": "keep_as_draft"}', null, null, '0', 'while they are kept as drafts'),
    (true, '{"paused": "mark_uncollectible"}', null, null, '0', 'while they are given up'),
    (false, '{"provider_status": "past_due"}', 'past_due_since', '0', '0',
      'not after a failed payment, without a grace'),
    (false, '{"provider_status": "past_due"}', 'past_due_since', '5 minutes', '0',
      'also if the provider''s clock is ahead'),
    (true, '{"provider_status": "past_due"}', 'past_due_since', '-71 hours', '72 hours', 'within the grace'),
    (false, '{"provider_status": "past_due"}', 'past_due_since', '-72 hours', '72 hours', 'not from its end on'),
    (false, '{"provider_status": "past_due", "paused": "void"}', 'past_due_since', '-1 hour', '72 hours',
      'nor while invoices are voided'),
    (true, '{"provider_status": "past_due"}', 'past_due_since', '-9 years', pg_temp.forever(),
      'a grace without an end'),
    (false, '{"provider_status": "past_due"}', 'past_due_since', '-1 hour', null, 'no grace of null'),
    (true, '{}', null, null, '-3 days', 'a grace below 0 takes nothing away'),
    (true, '{"provider_status": "past_due"}', 'current_period_end', '-71 hours', '72 hours',
      'if nobody knows since when, from the end of the period'),
    (false, '{"provider_status": "past_due"}', 'current_period_end', '-73 hours', '72 hours',
      'until the grace is over'),
    (true, '{"provider_status": "past_due"}', 'current_period_end', '1 hour', '1 minute',
      'of a period that has not ended, from now on'),
    (false, '{"provider_status": "past_due", "current_period_end": null}', null, null, '1 year',
      'not if there is no period')
) as c (has_access, fields, field, after, grace, why);

select pg_temp.has_access(
  '{"provider_status": "past_due"}'::jsonb || jsonb_build_object('past_due_since', now())
);
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
select ok(not public.billing_has_access('acc_2'), 'if it is the account''s own');

select * from finish();
rollback;
