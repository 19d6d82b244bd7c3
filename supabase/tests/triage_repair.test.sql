/*
 * A payload that somebody repairs: what was received is kept, and what the
 * provider sends again does not undo the repair.
 */
begin;
select plan(32);

create function pg_temp.file(p_event_id text, p_body text, p_type text default null, p_encoding text default 'text')
returns boolean
language sql
as $$
  select public.record_failed_event('a', p_event_id, p_body, p_encoding, 'event_invalid', 'Unreadable', p_type)
$$;

create function pg_temp.repair(p_event_id text, p_payload jsonb)
returns void
language sql
as $$
  update public.failed_events set payload = p_payload where event_id = p_event_id
$$;

create function pg_temp.failed(p_event_id text)
returns public.failed_events
language sql
as $$
  select * from public.failed_events where provider = 'a' and event_id = p_event_id
$$;

-- What is kept.

select pg_temp.file('tap_1', '{"n": 1}', 'invoice.payment_failed');
select is((pg_temp.failed('tap_1')).original_payload, null, 'an event that nobody repaired has no original payload');
update public.failed_events set payload = payload, error = 'Another' where event_id = 'tap_1';
select is(
  (pg_temp.failed('tap_1')).original_payload, null,
  'writing the same payload is no repair'
);
select pg_temp.repair('tap_1', '{"n": 2, "type": "invoice.payment_failed"}');
select is((pg_temp.failed('tap_1')).original_payload, '{"n": 1}', 'a repair keeps what was received');
select pg_temp.repair('tap_1', '{"n": 3, "type": "invoice.payment_failed"}');
select is(
  (pg_temp.failed('tap_1')).original_payload, '{"n": 1}',
  'a second repair keeps what was received, not the first repair'
);
select is(
  (pg_temp.failed('tap_1')).payload, '{"n": 3, "type": "invoice.payment_failed"}',
  'the payload is the newest repair'
);
select is((pg_temp.failed('tap_1')).attempts, 1, 'a repair is no attempt');

-- What the provider sends again.

select pg_temp.file('tap_1', '{"n": 1}');
select is(
  (select jsonb_build_array(payload ->> 'n', original_payload, type, attempts) from pg_temp.failed('tap_1')),
  '["3", {"n": 1}, "invoice.payment_failed", 2]',
  'the old body, delivered again, counts an attempt and leaves the repair alone'
);

select pg_temp.file('tap_2', '{"n": 1}');
select pg_temp.file('tap_2', '{"n": 2}');
select is(
  (select jsonb_build_array(payload, original_payload) from pg_temp.failed('tap_2')), '[{"n": 2}, null]',
  'a new body of an event that nobody repaired is no repair'
);

-- Bodies that were no JSON.

select pg_temp.file('tap_3', '{"n": ');
select is((pg_temp.failed('tap_3')).payload_encoding, 'text', 'a body that is no JSON is kept as text');
select pg_temp.repair('tap_3', '{"n": 1}');
select is(
  (select jsonb_build_array(payload_encoding, original_payload) from pg_temp.failed('tap_3')), '["json", "{\"n\": "]',
  'repaired with an event, it is JSON, and the text is kept'
);
select pg_temp.file('tap_3', '{"n": ');
select is(
  (select jsonb_build_array(payload_encoding, payload) from pg_temp.failed('tap_3')), '["json", {"n": 1}]',
  'the old text, delivered again, leaves payload and encoding alone'
);
select pg_temp.file('tap_4', 'gID/', null, 'base64');
select pg_temp.repair('tap_4', '{"n": 1}');
select is(
  (select jsonb_build_array(payload_encoding, original_payload) from pg_temp.failed('tap_4')), '["json", "gID/"]',
  'the same holds for bytes that were not text'
);
select pg_temp.file('tap_5', '{"n": ');
select pg_temp.repair('tap_5', to_jsonb('{"n": 1}'::text));
select is(
  (pg_temp.failed('tap_5')).payload_encoding, 'text',
  'text that is repaired as text stays text'
);

-- What triage reads from the payload.

select pg_temp.file('tap_6', '{"data": {"object": {"id": "tap_sub"}}}');
select is((pg_temp.failed('tap_6')).subscription_id, null, 'an event without a type tells no subscription');
select pg_temp.repair('tap_6', '{
  "type": "customer.subscription.created", "created": 1800000000,
  "data": {"object": {"id": "tap_sub", "metadata": {"accountId": "acc_1"}}}
}');
select is(
  (select jsonb_build_array(type, subscription_id, account_id, event_created) from pg_temp.failed('tap_6')),
  '["customer.subscription.created", "tap_sub", "acc_1", 1800000000]',
  'once it is repaired, type, subscription, account and time are read from it'
);
select pg_temp.file('tap_6', '{"data": {"object": {"id": "tap_sub"}}}');
select is(
  (pg_temp.failed('tap_6')).subscription_id, 'tap_sub',
  'and stay when the old body is delivered again'
);
select is(pg_temp.file(b.id, b.body, 'invoice.payment_failed'), true, format('an invoice with %s is filed', b.meaning))
from (
  values
    ('tap_7', '{"data": {"object": {"subscription": "sub_7"}}, "created": 1e39}', 'a huge time'),
    ('tap_8', '{"data": {"object": {"subscription": {"id": "sub_8"}}}, "created": "soon"}', 'a time in words'),
    ('tap_9', '{"data": {"object": {"parent": {"subscription_details": {"subscription": "sub_9"}}}}}', 'no time'),
    ('tap_10', '{"data": [], "created": null}', 'nothing that is read')
) as b (id, body, meaning);
select results_eq(
  $$select subscription_id, length(event_created::text) from public.failed_events
    where event_id in ('tap_7', 'tap_8', 'tap_9', 'tap_10') order by length(event_id), event_id$$,
  $$values ('sub_7', 40), ('sub_8', null), ('sub_9', null), (null, null)$$,
  'an invoice tells its subscription wherever the provider puts it'
);

-- A worker that has the row.

select pg_temp.file('tap_11', '{"n": 1}');
select public.retry_failed_event('tap_11');
create temporary table claimed as select * from public.claim_failed_events(10, 60);
select is((select array_agg(event_id) from claimed), array['tap_11'], 'a worker has the event');
select pg_temp.repair('tap_11', '{"n": 2}');
select is(
  public.settle_failed_events((
    select jsonb_agg(to_jsonb(c) || '{"outcome": "failed", "error_code": "event_invalid", "error": "Old"}') from claimed c
  )),
  0,
  'repaired meanwhile, it is not settled with what became of the old payload'
);
select ok(
  (select retry_requested_at is not null and attempts = 1 from pg_temp.failed('tap_11')),
  'the retry is still wanted'
);
select results_eq(
  'select event_id, body from public.claim_failed_events(10, 60)', $$values ('tap_11', '{"n": 2}')$$,
  'and the next worker tries the repaired payload at once'
);

-- What is refused.

select pg_temp.file('tap_12', '{"n": 1}');
select throws_ok(
  $$select pg_temp.repair('tap_12', '{"n": [1e40]}')$$, 'P0001',
  'Cannot repair tap_12: the payload has a number of more than 40 digits.', 'a payload that could not be looked at is refused'
);
update public.failed_events set resolved_at = now(), resolution = 'applied' where event_id = 'tap_12';
select throws_ok(
  $$select pg_temp.repair('tap_12', '{"n": 2}')$$, 'P0001',
  'Cannot repair tap_12: it is already resolved (applied).', 'a resolved row takes no repair: it would say that it was applied'
);
select is((pg_temp.failed('tap_12')).payload, '{"n": 1}', 'its payload stays');
update public.failed_events set payload = '{"n": 2}', resolved_at = null, resolution = null where event_id = 'tap_12';
select is((pg_temp.failed('tap_12')).original_payload, '{"n": 1}', 'one that is opened again takes one');
update public.failed_events set resolved_at = now(), resolution = 'applied' where event_id = 'tap_12';
update public.failed_events set payload = null, original_payload = null where event_id = 'tap_12';
select is((pg_temp.failed('tap_12')).payload, null, 'pruning removes the payload of a resolved row');
select is((pg_temp.failed('tap_12')).original_payload, null, 'and what was received');

set local role service_role;
select lives_ok(
  $$select pg_temp.repair('tap_11', '{"n": 3}')$$,
  'service_role may repair as well'
);

select * from finish();
rollback;
