-- The rule: what an event does to the record of its subscription. Nothing here reads or writes a table, so a list of
-- cases tests it (supabase/tests/rule.test.sql).

-- Returns the earliest known time of a state that is not before other_now, the newest time of another state; other_before
-- is what that was until now. At that very time, only a change to the state counts.
create or replace function billing.earliest(
  known timestamptz,
  occurred_at timestamptz,
  is_change boolean,
  newest timestamptz,
  other_before timestamptz,
  other_now timestamptz
)
returns timestamptz language sql immutable
return least(
  case when known > other_now or other_now is not distinct from other_before then known end,
  case when (occurred_at < other_now or occurred_at = other_now and not is_change) is not true then occurred_at end,
  case when newest > other_now then newest end
);

-- Returns the next step: the outcome of an event, and the record after it.
--
-- Each field belongs to the newest event that sets it: the account to a creation that names it, what the provider
-- reports to a creation or update, the status to a creation, update or deletion, canceled_at to a deletion. An
-- opening_update makes the record if there is none, and names the account as a creation does. A deletion that makes the
-- record lends it its account and report, until a creation or update brings its own, however old. An event that is older
-- than all that it would set is stale. One without a time is never older; as a second creation, it is stale.
--
-- before is the step before it, stored the record in the table; null if there is none. Its error codes:
--   BW001  no such subscription (yet): a later retry may find it
--   BW002  the subscription belongs to the other provider
--   BW003  events of this kind have no effect in this database
--   BW005  nobody knows the account
create or replace function billing.next(before billing.step, stored billing.records, e billing.event)
returns billing.step language plpgsql stable as $$
declare
  r billing.records := coalesce(before.record, stored);
  mark constant bigint := billing.mark(e);
  -- Those of a call are handled at the same time.
  occurred_at constant timestamptz
    := coalesce(e.occurred_at, e.handled_at + e.place * interval '1 microsecond');
  opens constant boolean := billing.opens(e);
  reported constant text := case when e.kind <> 'deletion' then e.report ->> 'provider_status' end;
  is_older constant boolean := coalesce(mark < r.changed_as_of, false);
  -- No creation or update has come yet, only a deletion.
  is_lent constant boolean := r.canceled_as_of is not null and r.changed_as_of is null;
  replaced constant text
    := case when e.previous is not null then e.previous ->> 'provider_status' when not is_older then r.provider_status end;
  is_after_end constant boolean := (mark < r.canceled_as_of) is not true;
  -- Whether another deletion has told of this end, or the subscription has come back since.
  is_known_end constant boolean := case
    when mark is null then r.status = 'canceled' and r.canceled_at is not null
    when r.canceled_as_of is not null then r.alive_as_of >= mark
      or (r.alive_as_of > r.canceled_as_of or r.status not in ('canceled', 'incomplete_expired')) is not true
  end;
  was_other constant boolean
    := (e.kind = 'creation' or e.previous ->> 'provider_status' <> 'past_due') is true;
  other_as_of timestamptz := r.not_past_due_as_of;
  unpaid_as_of timestamptz;
  payment jsonb := e.payment;
  outcome text := 'applied';
  settled billing.records;
  fault constant text := case
    when e.is_erased or e.kind in ('checkout', 'other') then null
    when (opens or e.kind in ('update', 'deletion', 'payment_failed', 'notice')) is not true then 'BW003'
    when r.id is null and not opens then 'BW001'
    when r.provider <> e.provider then 'BW002'
    when coalesce(r.account_id, e.account_id, e.customers_account) is null then 'BW005'
  end;
begin
  if e.is_erased then
    return (null, r, null, null, 'erased', null, null)::billing.step;
  elsif e.kind in ('checkout', 'other') then -- Nothing to a subscription.
    return (null, null, e.account_id, null, 'applied', null, null)::billing.step;
  elsif fault is not null then
    return (null, r, null, null, 'failed', fault, case fault
      when 'BW001' then format('No subscription %s is recorded.', e.subscription_id)
      when 'BW002' then format('Subscription %s belongs to provider %s, not %s.', r.id, r.provider, e.provider)
      when 'BW003' then format('No function applies events of type %s.', e.type)
      else 'No account is known.'
    end)::billing.step;
  end if;

  if e.kind = 'creation' then
    if r.id is not null and mark is null or mark < r.account_as_of or e.account_id is null and is_older then
      outcome := 'stale';
    elsif not is_older then
      r := jsonb_populate_record(r, e.report);
      r.changed_as_of := mark;
      r.changed_in_second := null;
      r.status := case when is_after_end then 'active' else r.status end;
    end if;

  elsif e.kind in ('update', 'opening_update') then
    if is_older then
      outcome := 'stale';
    elsif mark = r.changed_as_of then
      settled := billing.settle(r, e);
      r.changed_in_second := settled.changed_in_second;
      if settled = r and settled <> jsonb_populate_record(settled, e.report) then
        outcome := 'stale';
      end if;
      r := settled;
    else
      r := jsonb_populate_record(r, e.report);
      if mark is not null then
        r.changed_as_of := mark;
        r.changed_in_second := e.previous;
      end if;
    end if;
    if outcome = 'applied' and is_after_end then
      r.status := coalesce(r.provider_status, r.status);
    end if;
    if replaced in ('past_due', 'unpaid', 'incomplete') and reported in ('active', 'trialing') and e.kind = 'update' then
      r.recovered_as_of := greatest(r.recovered_as_of, occurred_at);
    end if;
    if (replaced in ('past_due', 'unpaid') and reported = 'active') is not true then
      payment := null;
    end if;
    if opens and reported = 'canceled' then
      r.canceled_at := coalesce(r.canceled_at, e.handled_at);
    end if;

  elsif e.kind = 'deletion' then
    if is_known_end then
      payment := null;
    end if;
    if not is_after_end then
      outcome := 'stale';
    else
      r.canceled_at := e.handled_at;
      r.canceled_as_of := coalesce(mark, r.canceled_as_of);
      r.status := case when is_older then r.status else 'canceled' end;
    end if;
    if opens and outcome = 'applied' and (r.id is null or is_lent) then
      r := jsonb_populate_record(r, e.report);
      r.account_id := coalesce(e.account_id, r.account_id);
      payment := null; -- It was never known to be anything but ended.
    end if;
  end if;

  if e.kind = 'opening_update' or opens and outcome = 'applied' then
    r.id := e.subscription_id;
    r.provider := e.provider;
    if e.kind <> 'deletion' and e.account_id is not null and (mark < r.account_as_of) is not true then
      if r.account_id <> e.account_id then
        outcome := 'applied';
      end if;
      r.account_id := e.account_id;
      r.account_as_of := coalesce(mark, r.account_as_of);
    end if;
    r.account_id := coalesce(r.account_id, e.account_id, e.customers_account);
  end if;

  if mark is not null and (e.kind = 'creation' or reported not in ('canceled', 'incomplete_expired')) then
    -- Stale events count too: one between two deletions tells that these are two ends.
    r.alive_as_of := greatest(r.alive_as_of, mark);
  end if;

  -- Since when it is past_due: the earliest known time after it was last known to be something else. A minimum after a
  -- maximum does not depend on the order of arrival, if updates say what they replaced; so stale events count too.
  if reported is not null and (outcome = 'applied' or mark is not null) then
    if reported <> 'past_due' or was_other then
      other_as_of := greatest(other_as_of, occurred_at);
    end if;
    if reported = 'past_due' or r.provider_status = 'past_due' or r.past_due_as_of is not null then
      r.past_due_as_of := billing.earliest(
        r.past_due_as_of,
        case when reported = 'past_due' then occurred_at end,
        was_other,
        case when r.provider_status = 'past_due' then billing.time_of(r.changed_as_of) end,
        r.not_past_due_as_of,
        other_as_of
      );
    end if;
    r.not_past_due_as_of := other_as_of;
  end if;
  r.past_due_since := case
    when r.provider_status = 'past_due' then coalesce(r.past_due_as_of, billing.time_of(r.changed_as_of))
  end;

  -- If updates never say what they replaced, it recovered at the earliest known time at which it was paid after it was
  -- last unpaid. Unless a creation has come, it was unpaid before: a payment that failed was in a checkout that went on.
  if e.kind in ('creation', 'opening_update') and (outcome = 'applied' or mark is not null) then
    unpaid_as_of := greatest(r.unpaid_as_of, case
      when reported in ('past_due', 'unpaid', 'incomplete') then occurred_at
      when e.kind = 'creation' then '-infinity'
    end);
    if unpaid_as_of is distinct from '-infinity' then
      r.recovered_as_of := coalesce(
        billing.earliest(
          case when (r.recovered_as_of < r.unpaid_as_of) is not true then r.recovered_as_of end,
          case when reported in ('active', 'trialing') and e.kind = 'opening_update' then occurred_at end,
          true,
          case
            when r.provider_status in ('active', 'trialing') and r.changed_as_of & 3 = 1 and r.changed_in_second is null
              then billing.time_of(r.changed_as_of)
          end,
          r.unpaid_as_of,
          unpaid_as_of
        ),
        case when r.unpaid_as_of is not null then r.recovered_as_of end
      );
    elsif r.unpaid_as_of is null then
      r.recovered_as_of := null;
    end if;
    r.unpaid_as_of := unpaid_as_of;
  end if;

  return (null, r, r.account_id, payment, outcome, null, null)::billing.step;
end;
$$;

create or replace aggregate billing.fold (billing.records, billing.event) (sfunc = billing.next, stype = billing.step);

-- Returns the record after another update with the mark of its newest one: for each field, the value that some update
-- states and none replaced. Providers date events in whole seconds, and one change of a subscription causes several
-- events in the same second. A previous value that equals the update's own replaced nothing: Stripe sends all old items
-- if any part of them changed. Unless a field changed back within the second, or an update does not say what it
-- replaced, that leaves one value; else the later arrival wins. changed_in_second has the last 50 updates; while there
-- is only one, just what that one replaced, because the record has what it states.
create or replace function billing.settle(r billing.records, e billing.event)
returns billing.records language plpgsql stable set search_path = ''
set timezone = 'UTC' -- times are compared as text
as $$
declare
  stated constant jsonb := billing.as_stored(e.report);
  updates jsonb := case jsonb_typeof(r.changed_in_second)
    when 'array' then r.changed_in_second
    else jsonb_build_array(jsonb_build_object(
      'stated', (
        select coalesce(jsonb_object_agg(own.key, own.value), '{}')
        from jsonb_each(to_jsonb(r)) as own where stated ? own.key
      ),
      'replaced', billing.as_stored(r.changed_in_second)
    ))
  end || jsonb_build_object('stated', stated, 'replaced', billing.as_stored(e.previous));
begin
  if jsonb_array_length(updates) > 50 then
    updates := updates - 0;
  end if;
  r := jsonb_populate_record(r, (
    with said as (
      select u.arrival, own.key as field, own.value as stated, u.said -> 'replaced' -> own.key as replaced
      from jsonb_array_elements(updates) with ordinality as u (said, arrival),
        jsonb_each(u.said -> 'stated') as own
    )
    select jsonb_object_agg(last.field, last.stated)
    from (
      select distinct on (s.field) s.field, s.stated
      from said s
      order by
        s.field,
        -- Uncorrelated, so it is hashed: 50 updates have hundreds of values.
        (s.field, s.stated) in (select o.field, o.replaced from said o where o.replaced <> o.stated),
        s.arrival desc
    ) as last
  ));
  r.changed_in_second := updates;
  return r;
end;
$$;

-- Returns the values of a report as to_jsonb shows them in a record, so that they can be compared.
create or replace function billing.as_stored(report jsonb)
returns jsonb language plpgsql stable set search_path = '' as $$ -- plpgsql keeps its plan, sql does not
begin
  return (
    select coalesce(jsonb_object_agg(own.key, own.value), '{}')
    from jsonb_each(to_jsonb(jsonb_populate_record(null::billing.records, report))) as own
    where report ? own.key
  );
end;
$$;
