/*
 * resolve_failed_event: settled by hand, with a reason and a name, until the
 * event fails again.
 */
begin;
select plan(28);

create function pg_temp.fail(p_provider text, p_event_id text)
returns boolean
language sql
as $$
  select public.record_failed_event(p_provider, p_event_id, '{"n": 1}', 'text', 'event_invalid', 'Failed', 'x')
$$;

create function pg_temp.failed(p_event_id text)
returns public.failed_events
language sql
as $$
  select * from public.failed_events where provider = 'a' and event_id = p_event_id
$$;

select pg_temp.fail('a', 'tap_1'), pg_temp.fail('a', 'tap_2'), pg_temp.fail('b', 'tap_2'), pg_temp.fail('a', 'tap_3');

select throws_like(c.statement, '%Give a reason and your name:%', c.meaning)
from (
  values
    ($$select public.resolve_failed_event('tap_1', '', 'somebody')$$, 'a reason is needed'),
    ($$select public.resolve_failed_event('tap_1', E' \t', 'somebody')$$, 'white space is no reason'),
    ($$select public.resolve_failed_event('tap_1', null, 'somebody')$$, 'nor is null'),
    ($$select public.resolve_failed_event('tap_1', 'a test', '')$$, 'a name is needed'),
    ($$select public.resolve_failed_event('tap_1', 'a test', ' ')$$, 'white space is no name'),
    ($$select public.resolve_failed_event('tap_1', 'a test', null)$$, 'nor is null a name')
) as c (statement, meaning);
select throws_ok(
  $$select public.resolve_failed_event('tap_none', 'a test', 'somebody')$$, 'P0001',
  'No failed event has the id tap_none.', 'an id that never failed raises an error'
);
select throws_ok(
  $$select public.resolve_failed_event('<event id>', '<reason>', '<your name>')$$, 'P0001', null,
  'and placeholders that nobody replaced'
);
select is(
  (select count(*)::int from public.failed_events where event_id like 'tap\_%' and resolved_at is not null), 0,
  'none of these resolves anything'
);

select public.retry_failed_event('tap_1');
select is(
  public.resolve_failed_event('tap_1', 'a test of ours', 'somebody'),
  'Resolved by hand. It opens again if the event fails again.',
  'with a reason and a name an open failure is resolved'
);
select is(
  (select jsonb_build_array(resolved_at = now(), resolution, resolution_note, resolved_by, retry_requested_at, attempts, error)
    from pg_temp.failed('tap_1')),
  '[true, "by hand", "a test of ours", "somebody", null, 1, "Failed"]',
  'the row says how, why and by whom, and a retry that was wanted is not wanted any more'
);
select is_empty(
  $$select event_id from public.open_failures where event_id = 'tap_1'$$, 'it is no open failure any more'
);
select is_empty(
  $$select event_id from public.processed_events where event_id = 'tap_1'$$,
  'and not applied: the ledger knows nothing of it'
);
select is(
  public.retry_failed_event('tap_1'), 'It is already resolved: nothing to retry.', 'there is nothing to retry'
);
select throws_ok(
  $$select public.resolve_failed_event('tap_1', 'once more', 'somebody else')$$, 'P0001', null,
  'what is resolved is not resolved again'
);
select is((pg_temp.failed('tap_1')).resolved_by, 'somebody', 'and keeps the name that it has');
select is((pg_temp.failed('tap_3')).resolved_at, null, 'other failures stay open');

select is(
  public.resolve_failed_event('tap_3', 'a test of ours') like 'Resolved by hand.%', true,
  'without a name the role is taken'
);
select is((pg_temp.failed('tap_3')).resolved_by, 'postgres', 'which is the SQL editor''s');

select throws_ok(
  $$select public.resolve_failed_event('tap_2', 'a test of ours', 'somebody')$$, 'P0001',
  'Providers a and b both have a failed event with the id tap_2: add of_provider.',
  'one id of both providers is not resolved until one is named'
);
select is(
  public.resolve_failed_event('tap_2', 'a test of ours', 'somebody', of_provider => 'b') like 'Resolved by hand.%', true,
  'the one that is named is resolved'
);
select results_eq(
  $$select provider from public.failed_events where event_id = 'tap_2' and resolved_at is not null$$,
  $$values ('b')$$,
  'and no other'
);
select is(
  public.resolve_failed_event('tap_2', 'a test of ours', 'somebody') like 'Resolved by hand.%', true,
  'once one is left, it needs no name'
);

-- Again.

select is(pg_temp.fail('a', 'tap_1'), true, 'the event fails again');
select is(
  (select jsonb_build_array(resolved_at, resolution, resolution_note, resolved_by, attempts) from pg_temp.failed('tap_1')),
  '[null, null, null, null, 2]',
  'its row is open, with one attempt more, and without the reason and the name'
);
select matches(public.retry_failed_event('tap_1'), '^Retry requested: 1\.', 'and can be retried');

-- Who may.

select is(
  (select count(*)::int from unnest(array['anon', 'authenticated']) as r (name)
    where has_function_privilege(r.name, 'public.resolve_failed_event(text, text, text, text)', 'execute')),
  0, 'no user resolves through the API, only the secret key does'
);
select function_privs_are(
  'public', 'resolve_failed_event', array['text', 'text', 'text', 'text'], 'postgres', array['EXECUTE'],
  'the SQL editor''s role may'
);

select * from finish();
rollback;
