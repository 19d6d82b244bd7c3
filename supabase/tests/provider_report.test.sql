/*
 * What the provider reports beside status, plan and period: the same ordering
 * rule for each column, where null is a value, and past_due_since, which has a
 * rule of its own.
 *
 * Every case is a subscription of its own; events stand in the order in which
 * they arrive, and times are seconds of a made-up clock.
 */
begin;
select plan(50);

create function pg_temp.event(p_type text, p_at integer, p_fields jsonb)
returns jsonb
language sql
as $$
  select jsonb_build_object(
    'type', 'customer.subscription.' || p_type, 'created', to_timestamp(1800000000 + p_at),
    'account_id', 'acc_1', 'status', 'active', 'plan_id', 'plan_1',
    'current_period_end', to_timestamp(1800001000), 'previous', '{}'::jsonb
  ) || p_fields
$$;

create function pg_temp.created(p_at integer, p_fields jsonb default '{}')
returns jsonb
language sql
as $$
  select pg_temp.event('created', p_at, p_fields)
$$;

create function pg_temp.updated(p_at integer, p_fields jsonb)
returns jsonb
language sql
as $$
  select pg_temp.event('updated', p_at, p_fields)
$$;

create function pg_temp.deleted(p_at integer)
returns jsonb
language sql
as $$
  select pg_temp.event('deleted', p_at, '{}')
$$;

-- One call an event: the outcomes, and one column in the end.
create function pg_temp.in_turn(p_column text, variadic p_events jsonb[])
returns text
language plpgsql
as $$
declare
  subscription_id text := 'tap_' || gen_random_uuid();
  outcomes text[];
  event jsonb;
  value text;
begin
  foreach event in array p_events loop
    outcomes := outcomes || (
      select concat_ws(' ', a.outcome, a.error_code)
      from public.apply_billing_events(jsonb_build_array(event || jsonb_build_object(
        'provider', 'a', 'event_id', 'tap_' || gen_random_uuid(), 'subscription_id', subscription_id
      ))) as a
    );
  end loop;
  select to_jsonb(s) ->> p_column into value from public.subscriptions s where s.id = subscription_id;
  if p_column like 'past\_due%' then
    value := extract(epoch from value::timestamptz)::bigint - 1800000000;
  end if;
  return array_to_string(outcomes, ', ') || ': ' || coalesce(value, 'null');
end;
$$;

-- For each column two values as events bring them, as `previous` has them, and
-- as the record shows them.
create temporary table columns (name text, one jsonb, two jsonb, was_one jsonb, shown_one text, shown_two text);
grant select on columns to service_role;
set local timezone = 'UTC';
insert into columns
values
  ('provider_status', '"trialing"', '"unpaid"', '"trialing"', 'trialing', 'unpaid'),
  ('customer_id', '"cus_1"', '"cus_2"', '"cus_1"', 'cus_1', 'cus_2'),
  ('quantity', '0', '2147483647', '0', '0', '2147483647'),
  (
    'cancel_at', '"2027-01-20T00:00:00Z"', '"2027-01-21T00:00:00Z"', '1800403200',
    '2027-01-20T00:00:00+00:00', '2027-01-21T00:00:00+00:00'
  ),
  (
    'trial_end', '"2027-01-20T00:00:00Z"', '"2027-01-21T00:00:00Z"', '1800403200',
    '2027-01-20T00:00:00+00:00', '2027-01-21T00:00:00+00:00'
  ),
  ('paused', '"void"', '"keep_as_draft"', '"void"', 'void', 'keep_as_draft'),
  ('livemode', 'true', 'false', 'true', 'true', 'false');

create function pg_temp.to(p_column text, p_value jsonb)
returns jsonb
language sql
as $$
  select jsonb_build_object(p_column, p_value)
$$;

-- What the event replaced.
create function pg_temp.from_value(p_column text, p_value jsonb)
returns jsonb
language sql
as $$
  select jsonb_build_object('previous', jsonb_build_object(p_column, p_value))
$$;

set local role service_role;

select is(
  pg_temp.in_turn(
    c.name, pg_temp.created(10, pg_temp.to(c.name, c.one)), pg_temp.updated(20, pg_temp.to(c.name, c.two)),
    pg_temp.updated(15, pg_temp.to(c.name, c.one)), pg_temp.created(12, pg_temp.to(c.name, c.one)),
    pg_temp.deleted(30)
  ),
  'applied, applied, stale, applied, applied: ' || c.shown_two,
  format('the newest creation or update brings %s; what is older, and a deletion, leave it alone', c.name)
)
from columns c;
select is(
  pg_temp.in_turn(
    c.name, pg_temp.created(10, pg_temp.to(c.name, c.one)), pg_temp.deleted(30),
    pg_temp.updated(20, pg_temp.to(c.name, c.two))
  ),
  'applied, applied, applied: ' || c.shown_two,
  format('an update that is older than a deletion still brings %s', c.name)
)
from columns c;
select is(
  pg_temp.in_turn(
    c.name, pg_temp.created(10), pg_temp.updated(20, pg_temp.to(c.name, c.two)),
    pg_temp.created(30, pg_temp.to(c.name, c.one)), pg_temp.updated(40, '{}')
  ),
  'applied, applied, applied, applied: null',
  format('an event that does not report %s sets it to null', c.name)
)
from columns c;
select is(
  pg_temp.in_turn(
    c.name, pg_temp.created(10, pg_temp.to(c.name, c.one)),
    pg_temp.updated(20, pg_temp.to(c.name, c.two) || pg_temp.from_value(c.name, 'null')),
    pg_temp.updated(20, pg_temp.from_value(c.name, c.was_one))
  ),
  'applied, applied, stale: ' || c.shown_two,
  format('within one second: %s from a value to null to a value, the last arriving first', c.name)
)
from columns c;
select is(
  pg_temp.in_turn(
    c.name, pg_temp.created(10),
    pg_temp.updated(20, pg_temp.from_value(c.name, c.was_one)),
    pg_temp.updated(20, pg_temp.to(c.name, c.one) || pg_temp.from_value(c.name, 'null')),
    pg_temp.updated(20, '{}')
  ),
  'applied, applied, applied, applied: null',
  format('within one second: of %s that changes back, the later arrival wins', c.name)
)
from columns c;

-- past_due_since

select is(
  pg_temp.in_turn('past_due_since', pg_temp.created(10), pg_temp.updated(20, '{"status": "active"}')),
  'applied, applied: null', 'there is none before the first update to past_due'
);
select is(
  pg_temp.in_turn(
    'past_due_since', pg_temp.created(10),
    pg_temp.updated(20, '{"status": "past_due", "previous": {"status": "active"}}'),
    pg_temp.updated(30, '{"status": "past_due", "previous": {}}'),
    pg_temp.updated(40, '{"status": "active", "previous": {"status": "past_due"}}'),
    pg_temp.deleted(50)
  ),
  'applied, applied, applied, applied, applied: 20',
  'it is the time of the update that changed the status, and it remains'
);
select is(
  pg_temp.in_turn(
    'past_due_since', pg_temp.created(10),
    pg_temp.updated(20, '{"status": "past_due", "previous": {"status": "active"}}'),
    pg_temp.updated(30, '{"status": "active", "previous": {"status": "past_due"}}'),
    pg_temp.updated(40, '{"status": "past_due", "previous": {"status": "unpaid"}}'),
    pg_temp.created(50)
  ),
  'applied, applied, applied, applied, applied: 40', 'the newest such time counts'
);
select is(
  pg_temp.in_turn(
    'past_due_since', pg_temp.created(10),
    pg_temp.updated(40, '{"status": "active", "previous": {"status": "past_due"}}'),
    pg_temp.updated(20, '{"status": "past_due", "previous": {"status": "active"}}')
  ),
  'applied, applied, stale: 20', 'an update that is otherwise too late still sets it'
);
select is(
  pg_temp.in_turn(
    'past_due_since', pg_temp.created(10),
    pg_temp.updated(40, '{"status": "past_due", "previous": {"status": "active"}}'),
    pg_temp.updated(20, '{"status": "past_due", "previous": {"status": "active"}}')
  ),
  'applied, applied, stale: 40', 'but never lowers it'
);
select is(
  pg_temp.in_turn(
    'past_due_since', pg_temp.created(10),
    pg_temp.updated(30, '{"status": "past_due", "previous": {}}'),
    pg_temp.updated(20, '{"status": "past_due", "previous": {"status": "active"}}')
  ),
  'applied, applied, stale: 20', 'an update that says that the status did not change does not count'
);
select is(
  pg_temp.in_turn(
    'past_due_since', pg_temp.created(10),
    pg_temp.updated(20, '{"status": "past_due", "previous": {"status": "past_due"}}')
  ),
  'applied, applied: null', 'nor does one that names the same status'
);
select is(
  pg_temp.in_turn(
    'past_due_since', pg_temp.created(10),
    pg_temp.updated(20, '{"status": "past_due", "previous": null}'),
    pg_temp.updated(30, '{"status": "past_due", "previous": null, "provider_status": "past_due"}'),
    pg_temp.updated(40, '{"status": "past_due", "previous": null, "provider_status": "past_due"}')
  ),
  'applied, applied, applied, applied: 30',
  'one that says nothing of what it replaced counts if the record did not know of past_due'
);
select is(
  pg_temp.in_turn(
    'past_due_since', pg_temp.created(10, '{"provider_status": "past_due"}'),
    pg_temp.updated(20, '{"status": "past_due", "previous": null, "provider_status": "past_due"}')
  ),
  'applied, applied: 20', 'or did not know since when, as after an import'
);
select is(
  pg_temp.in_turn(
    'past_due_since', pg_temp.created(10),
    pg_temp.updated(30, '{"status": "active"}'),
    pg_temp.updated(20, '{"status": "past_due", "previous": null}')
  ),
  'applied, applied, stale: null', 'unless it is older than the record'
);
select is(
  pg_temp.in_turn(
    'past_due_since', pg_temp.created(10) - 'previous',
    pg_temp.updated(20, '{"status": "past_due"}') - 'previous'
  ),
  'applied, applied: 20', 'a missing key is null'
);
select is(
  pg_temp.in_turn(
    'past_due_since', pg_temp.created(10),
    pg_temp.updated(20, '{"status": "past_due", "previous": {"status": "active"}}'),
    pg_temp.updated(20, '{"status": "unpaid", "previous": {"status": "past_due"}}'),
    pg_temp.updated(20, '{"status": "past_due", "previous": {"status": "active"}}')
  ),
  'applied, applied, applied, stale: 20', 'within one second the order does not matter'
);
select matches(
  pg_temp.in_turn(
    'past_due_since', pg_temp.created(null),
    pg_temp.updated(null, '{"status": "past_due", "previous": {"status": "active"}}')
  ),
  '^applied, applied: ' || extract(epoch from now())::bigint - 1800000000,
  'without an event time it is the time of handling'
);

-- Callers that are older than these columns: the recipe in CONTRIBUTING, and the
-- receiver of the version before.

select is(
  public.apply_subscription_created(
    'a', '2027-01-15T08:00:00Z', 'tap_short', 'acc_1', 'plan_1', '2027-02-01T00:00:00Z'
  ) || ', ' || public.apply_subscription_updated(
    'a', '2027-01-15T08:00:01Z', 'tap_short', 'past_due', 'plan_1', '2027-02-01T00:00:00Z', '{"status": "active"}'
  ) || ', ' || public.apply_subscription_updated(
    'a', '2027-01-15T08:00:01Z', 'tap_short', 'unpaid', 'plan_1', '2027-02-01T00:00:00Z', '{"status": "past_due"}'
  ),
  'applied, applied, applied', 'the functions can be called without the new arguments'
);
select is(
  (select s.status || ' ' || jsonb_strip_nulls(s.changed_in_second)
    from public.subscriptions s where s.id = 'tap_short'),
  'unpaid {"status": {"replaced": ["active", "past_due"]}}', 'and the order is as it was'
);

select * from finish();
rollback;
