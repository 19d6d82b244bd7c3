/*
 * What the pgTAP tests share: it is run before each of them, on its connection.
 */

-- An event on the wire, without its place. `second` is when it occurred; null for an event without
-- a time. The fields are added, or take the place of others.
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
    when kind in ('creation', 'update')
      then '{"plan_id": "plan_1", "provider_status": "past_due"}'::jsonb
    else '{}'
  end,
  'payment', case when kind = 'payment_failed' then '{}'::jsonb end
) || fields;

-- Applies events in one call. Returns the answers by place, such as 'applied, failed BW001'.
create function pg_temp.apply(variadic events jsonb[])
returns text language sql as $$
  select string_agg(concat_ws(' ', a.outcome, a.error_code), ', ' order by a.place)
  from public.billing_apply_events((
    select jsonb_agg(e.event || jsonb_build_object('place', e.place) order by e.place)
    from unnest(events) with ordinality as e (event, place)
  )) as a
$$;

-- Stores an event that failed.
create function pg_temp.file(
  event_id text,
  error_code text default 'event_invalid',
  subscription_id text default null,
  fields jsonb default '{}'
)
returns text language sql as $$
  select public.billing_record_failed_event(jsonb_build_object(
    'provider', 'a',
    'event_id', event_id,
    'body', '{}',
    'body_encoding', 'text',
    'error_code', error_code,
    'error', 'Failed',
    'type', 'x',
    'kind', 'update',
    'subscription_id', subscription_id
  ) || fields)
$$;

create function pg_temp.failed(event_id text, provider text default 'a')
returns billing.failed_events language sql as $$
  select *
  from billing.failed_events f
  where f.provider = failed.provider and f.event_id = failed.event_id
$$;

-- Returns these fields of a failure.
create function pg_temp.fields(event_id text, names text[], provider text default 'a')
returns jsonb language sql as $$
  select jsonb_agg(
    case when to_jsonb(f) ? n.name then to_jsonb(f) -> n.name else '"unknown"' end
    order by n.place
  )
  from pg_temp.failed(event_id, provider) as f, unnest(names) with ordinality as n (name, place)
$$;

create function pg_temp.requested()
returns text language sql as $$
  select string_agg(event_id, ' ' order by event_id)
  from billing.failed_events
  where retry_requested_at is not null
$$;

-- The ID of a run of the worker. Runs have a number here.
create function pg_temp.run(number integer)
returns uuid language sql immutable
return lpad(number::text, 32, '0')::uuid;

-- Inside of one transaction, now() stands still, so leases end by hand.
create function pg_temp.end_lease()
returns void language sql as $$
  update billing.leases set held_until = clock_timestamp() - interval '1 ms'
$$;

-- Inserts a row with these fields; the others have their defaults.
create function pg_temp.add(table_name text, fields jsonb)
returns void language plpgsql as $$
begin
  execute format(
    'insert into billing.%1$I (%2$s) select %2$s from jsonb_populate_record(null::billing.%1$I, $1)',
    table_name,
    (select string_agg(quote_ident(c), ', ') from jsonb_object_keys(fields) as c)
  ) using fields;
end;
$$;

create temporary view relations as
select c.*, c.relnamespace::regnamespace::text as schema
from pg_class c
where c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
  and (
    c.relnamespace = 'billing'::regnamespace
    or c.relnamespace = 'public'::regnamespace and c.relname ~ '^billing_'
  );

create temporary view functions as
select
  p.*,
  p.oid::regprocedure::text as signature,
  coalesce(p.proacl, acldefault('f', p.proowner)) as acl,
  p.pronamespace::regnamespace::text as schema
from pg_proc p
where p.pronamespace = 'billing'::regnamespace
  or p.pronamespace = 'public'::regnamespace and p.proname ~ '^billing_';

-- As docs/app.md grants it, with another claim.
create function pg_temp.let_users_read()
returns void language sql as $$
  grant select on
    billing.subscriptions,
    public.billing_subscriptions,
    billing.plan_features,
    public.billing_plan_features
  to authenticated;
  grant execute on function
    public.billing_default_grace,
    public.billing_has_access,
    public.billing_account,
    public.billing_feature_amount,
    public.billing_has_feature
  to authenticated;
  create policy "Own" on billing.subscriptions for select to authenticated
  using (account_id = (select auth.jwt() ->> 'account'));
  create policy "All" on billing.plan_features for select to authenticated using (true);
$$;
