/*
 * public.billing_has_access as a truth table: every case of a status, a grace, a pause and
 * three times, compared with a list of rules that is written in another way than the function.
 * Then cases by name, and who may ask. tests/integration/app.test.ts asks as users do, with the
 * grants and policies of docs/app.md.
 */
begin;
select plan(37);

create temporary table statuses as
select unnest(array[
  'incomplete', 'incomplete_expired', 'trialing', 'active', 'past_due', 'canceled', 'unpaid', 'paused', 'on_hold'
]) as word;

-- `how` a creation, an update, a deletion or a record without a report leaves the two statuses.
create temporary table cases as
select 'case_' || row_number() over () as account, seen.how, seen.status, seen.provider_status, paused, period_ends, cancels, failed
from (
  select 'created' as how, 'active' as status, word as provider_status from statuses
  union all select 'updated', word, word from statuses
  union all select 'deleted', 'canceled', word from statuses
  union all select 'unreported', word, null from statuses
) as seen
cross join unnest(array[null, 'void', 'keep_as_draft', 'mark_uncollectible']) as paused
cross join unnest(array['never', 'long ago', 'recently', 'later']) as period_ends
cross join unnest(array['never', 'before', 'later']) as cancels
cross join unnest(array['never', 'recently', 'long ago']) as failed;

create temporary table times (word, at) as
values
  ('never', null), ('long ago', now() - interval '90 days'), ('before', now() - interval '1 minute'),
  ('recently', now() - interval '2 days'), ('later', now() + interval '20 days');

insert into billing.subscriptions (
  id, provider, account_id, plan_id, status, provider_status, paused, current_period_end, cancel_at, past_due_since
)
select
  'sub_' || c.account, 'a', c.account, 'price_pro', c.status, c.provider_status, c.paused,
  (select at from times where word = c.period_ends), (select at from times where word = c.cancels), (select at from times where word = c.failed)
from cases c;

-- The rules. The first that applies decides.
create temporary table expected as
select c.account, g.grace, g.name as grace_name, c, rule.number, rule.has_access
from cases c
cross join (values ('none', interval '0'), ('three days', '3 days'), ('null', null), ('negative', '-3 days')) as g (name, grace)
cross join lateral (
  select r.number, r.has_access
  from (
    values
      (1, 'it was deleted', c.how = 'deleted' or c.status = 'canceled', false),
      (2, 'the time at which it ends has passed', c.cancels = 'before', false),
      (3, 'its invoices are voided', c.paused = 'void', false),
      (4, 'the provider says that it is paid or on trial', c.provider_status in ('active', 'trialing'), true),
      (5, 'nothing else is known, and it is paid or on trial', c.provider_status is null and c.status in ('active', 'trialing'), true),
      (6, 'no payment is late', coalesce(c.provider_status, c.status) <> 'past_due', false),
      (7, 'there is no grace', g.name <> 'three days', false),
      (8, 'the payment failed within the grace', c.failed = 'recently', true),
      (9, 'the payment failed before', c.failed = 'long ago', false),
      (10, 'nobody knows when it failed: the period ended before the grace', c.period_ends = 'long ago', false),
      (11, 'the period ended within the grace, or ends later', c.period_ends in ('recently', 'later'), true),
      (12, 'there is no period', true, false)
  ) as r (number, text, applies, has_access)
  where r.applies
  order by r.number
  limit 1
) as rule;

select is((select count(*)::integer from expected), 36 * 4 * 4 * 3 * 3 * 4, 'every case is there');
select is((select array_agg(distinct number order by number) from expected), array(select generate_series(1, 12)), 'each rule decides some case');
select is_empty(
  $$select number, grace_name, c from expected where public.billing_has_access(account, grace) is distinct from has_access limit 5$$,
  'billing_has_access answers as the rules say, and is never null'
);
select is_empty(
  $$select account from cases where public.billing_has_access(account) is distinct from public.billing_has_access(account, '0')$$,
  'by default, there is no grace'
);

-- By name.
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
select is(
  pg_temp.has_access(c.fields::jsonb || case when c.field is not null then jsonb_build_object(c.field, now() + c.after) else '{}' end, c.grace),
  c.has_access, c.why
)
from (
  values
    (true, '{}', null, null::interval, interval '0', 'a subscription that is paid'),
    (true, '{"provider_status": "trialing"}', null, null, '0', 'a trial that was just created'),
    (false, '{"provider_status": "incomplete"}', null, null, '1 year', 'not before the first payment, although a creation is active'),
    (false, '{"status": "incomplete_expired", "provider_status": "incomplete_expired"}', null, null, '1 year', 'nor if it was never made'),
    (true, '{"provider_status": null}', null, null, '0', 'a record without a report'),
    (true, '{}', 'current_period_end', '-1 hour', '0', 'a renewal whose event is late'),
    (true, '{}', 'cancel_at', '1 second', '0', 'canceled, but not yet'),
    (false, '{}', 'cancel_at', '0', '1 year', 'not from the time on at which it ends, although the deletion is late'),
    (false, '{"status": "canceled"}', null, null, '1 year', 'not after the deletion, which leaves provider_status'),
    (false, '{"status": "unpaid", "provider_status": "unpaid"}', null, null, '1 year', 'not after the last attempt to collect the payment'),
    (false, '{"status": "paused", "provider_status": "paused"}', null, null, '1 year', 'not after a trial without a payment method'),
    (false, '{"paused": "void"}', null, null, '1 year', 'not while invoices are voided'),
    (false, '{"paused": "void"}', 'paused_until', '1 minute', '1 year', 'until they are not'),
    (true, '{"paused": "void"}', 'paused_until', '0', '0', 'from then on'),
    (true, '{"paused": "keep_as_draft"}', null, null, '0', 'while they are kept as drafts'),
    (true, '{"paused": "mark_uncollectible"}', null, null, '0', 'while they are given up'),
    (false, '{"provider_status": "past_due"}', 'past_due_since', '0', '0', 'not after a failed payment, without a grace'),
    (false, '{"provider_status": "past_due"}', 'past_due_since', '5 minutes', '0', 'also if the provider''s clock is ahead'),
    (true, '{"provider_status": "past_due"}', 'past_due_since', '-71 hours', '72 hours', 'within the grace'),
    (false, '{"provider_status": "past_due"}', 'past_due_since', '-72 hours', '72 hours', 'not from its end on'),
    (false, '{"provider_status": "past_due", "paused": "void"}', 'past_due_since', '-1 hour', '72 hours', 'nor while invoices are voided'),
    (true, '{"provider_status": "past_due"}', 'past_due_since', '-9 years', 'infinity', 'a grace without an end')
) as c (has_access, fields, field, after, grace, why);
select is(public.billing_has_access(a, '1 year'), false, format('the account %L has no access', a)) from unnest(array[null, '', 'acc_nobody', ' acc_1']) as a;
select pg_temp.has_access('{"status": "canceled"}');
insert into billing.subscriptions (id, provider, account_id, status, plan_id)
values ('sub_2', 'b', 'acc_1', 'active', 'price_pro'), ('sub_3', 'a', 'acc_2', 'unpaid', 'price_pro');
select ok(public.billing_has_access('acc_1'), 'one subscription that counts is enough');
select ok(not public.billing_has_access('acc_2'), 'if it is the account''s own');

-- Who may ask.
set local role service_role;
select ok(public.billing_has_access('acc_1') and not public.billing_has_access('acc_2'), 'service_role may ask for every account');
set local role anon;
select throws_ok($$select public.billing_has_access('acc_1')$$, '42501', null, 'anon may not');
set local role authenticated;
select throws_ok($$select public.billing_has_access('acc_1')$$, '42501', null, 'nor authenticated, before the app grants it');
reset role;

grant execute on function public.billing_has_access to authenticated;
grant select on public.billing_subscriptions, billing.subscriptions to authenticated;
create policy "Own" on billing.subscriptions for select to authenticated using (account_id = (select auth.uid())::text);
insert into billing.subscriptions (id, provider, account_id, status, plan_id)
values ('sub_4', 'a', '00000000-0000-4000-8000-000000000001', 'active', 'price_pro');
set local role authenticated;
select set_config('request.jwt.claims', '{"sub": "00000000-0000-4000-8000-000000000001"}', true);
select ok(public.billing_has_access('00000000-0000-4000-8000-000000000001'), 'then a user asks for their own account');
select ok(not public.billing_has_access('acc_1'), 'and has no access to another');
reset role;
select * from finish();
rollback;
