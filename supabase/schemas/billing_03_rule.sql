-- The rule: what an event does to the record of its subscription. Nothing here reads or writes a
-- table, so a list of cases tests it (supabase/tests/rule.test.sql).

-- Each field belongs to the newest event that sets it: the account to a creation that names it,
-- what the provider reports to a creation or update, the status to a creation, update or deletion,
-- canceled_at to a deletion. An opening_update makes the record if there is none, and names the
-- account as a creation does. A deletion that makes the record lends it its account and report,
-- until a creation or update brings its own, however old. An event that is older than all that it
-- would set is stale. One without a time is never older; as a second creation, it is stale.
--
-- before is the step before it, stored the record in the table; null if there is none.
create function billing.next(
  before billing.step,
  stored billing.records,
  event billing.event
)
returns billing.step
language plpgsql stable
as $$
declare
  record billing.records := coalesce(before.record, stored);
  payment jsonb := event.payment;
  outcome text := 'applied';
  fault text[];
  settled billing.records;

  mark constant bigint := billing.mark(event);
  -- Without a time, it has that of the call, and its place there.
  occurred_at constant timestamptz := coalesce(
    event.occurred_at,
    event.handled_at + event.place * interval '1 microsecond'
  );
  opens constant boolean := billing.opens(event);
  is_older constant boolean := coalesce(mark < record.changed_mark, false);
  is_before_end constant boolean := coalesce(mark < record.canceled_mark, false);

  reported constant text := case
    when event.kind <> 'deletion' then event.report ->> 'provider_status'
  end;
  status_before text;
  is_lent boolean;
  has_come_back boolean;
  is_known_end boolean;
  counts boolean;
  was_other boolean;
  other_as_of timestamptz;
  unpaid_now timestamptz;
begin
  if event.is_erased then
    return (null, record, null, null, 'erased', null, null)::billing.step;
  elsif event.kind in ('checkout', 'other') then
    return (null, null, event.account_id, null, 'applied', null, null)::billing.step;
  end if;

  fault := case
    when (opens or event.kind in ('update', 'deletion', 'payment_failed', 'notice')) is not true
      then array['BW003', format('No function applies events of type %s.', event.type)]
    when record.id is null and not opens
      then array['BW001', format('No subscription %s is recorded.', event.subscription_id)]
    when record.provider <> event.provider
      then array['BW002', format(
        'Subscription %s belongs to provider %s, not %s.',
        record.id,
        record.provider,
        event.provider
      )]
    when coalesce(record.account_id, event.account_id, event.customers_account) is null
      then array['BW005', 'No account is known.']
  end;
  if fault is not null then
    return (null, record, null, null, 'failed', fault[1], fault[2])::billing.step;
  end if;

  if event.kind = 'creation' then
    if record.id is not null and mark is null
      or mark < record.account_mark
      or event.account_id is null and is_older
    then
      outcome := 'stale';
    elsif not is_older then
      record := jsonb_populate_record(record, event.report);
      record.changed_mark := mark;
      record.changed_in_second := null;
      record.status := case when is_before_end then record.status else 'active' end;
    end if;

  elsif event.kind in ('update', 'opening_update') then
    status_before := case
      when event.previous is not null then event.previous ->> 'provider_status'
      when not is_older then record.provider_status
    end;

    if is_older then
      outcome := 'stale';
    elsif mark = record.changed_mark then
      -- Stale if others of its second replaced all that it states.
      settled := billing.settle(record, event);
      record.changed_in_second := settled.changed_in_second;
      if settled = record and settled <> jsonb_populate_record(settled, event.report) then
        outcome := 'stale';
      end if;
      record := settled;
    else
      record := jsonb_populate_record(record, event.report);
      if mark is not null then
        record.changed_mark := mark;
        record.changed_in_second := event.previous;
      end if;
    end if;

    if outcome = 'applied' and not is_before_end then
      record.status := coalesce(record.provider_status, record.status);
    end if;
    if opens and reported = 'canceled' then
      record.canceled_at := coalesce(record.canceled_at, event.handled_at);
    end if;

    -- It recovered, even if the update is stale. The account is told of payments only.
    if event.kind = 'update'
      and status_before in ('past_due', 'unpaid', 'incomplete')
      and reported in ('active', 'trialing')
    then
      record.recovered_as_of := greatest(record.recovered_as_of, occurred_at);
    end if;
    if (status_before in ('past_due', 'unpaid') and reported = 'active') is not true then
      payment := null;
    end if;

  elsif event.kind = 'deletion' then
    -- Only deletions have come.
    is_lent := record.canceled_mark is not null and record.changed_mark is null;
    -- Since the end that is recorded.
    has_come_back := record.alive_mark > record.canceled_mark
      or record.status not in ('canceled', 'incomplete_expired');
    -- Another deletion has told of this end, or it has come back since this end, too.
    is_known_end := case
      when mark is null then record.status = 'canceled' and record.canceled_at is not null
      else record.canceled_mark is not null
        and (has_come_back is not true or record.alive_mark >= mark)
    end;
    if is_known_end then
      payment := null;
    end if;

    if is_before_end then
      outcome := 'stale';
    else
      record.canceled_at := event.handled_at;
      record.canceled_mark := coalesce(mark, record.canceled_mark);
      record.status := case when is_older then record.status else 'canceled' end;
    end if;

    if opens and outcome = 'applied' and (record.id is null or is_lent) then
      record := jsonb_populate_record(record, event.report);
      record.account_id := coalesce(event.account_id, record.account_id);
      payment := null; -- it was never known to be anything but ended
    end if;
  end if;

  -- A stale opening_update may still be the newest that names the account.
  if event.kind = 'opening_update' or opens and outcome = 'applied' then
    record.id := event.subscription_id;
    record.provider := event.provider;

    if event.kind <> 'deletion'
      and event.account_id is not null
      and (mark < record.account_mark) is not true
    then
      if record.account_id <> event.account_id then
        outcome := 'applied';
      end if;
      record.account_id := event.account_id;
      record.account_mark := coalesce(mark, record.account_mark);
    end if;
    record.account_id := coalesce(record.account_id, event.account_id, event.customers_account);
  end if;

  -- Stale events count too: one between two deletions tells that these are two ends.
  if mark is not null
    and (event.kind = 'creation' or reported not in ('canceled', 'incomplete_expired'))
  then
    record.alive_mark := greatest(record.alive_mark, mark);
  end if;
  record.had_trial := coalesce(record.had_trial, false)
    or (event.report ->> 'trial_end') is not null;

  -- So here: a minimum after a maximum does not depend on the order of arrival, if updates say what
  -- they replaced.
  counts := outcome = 'applied' or mark is not null;

  -- Since when is it past_due?
  if counts and reported is not null then
    was_other := (
      event.kind = 'creation' or event.previous ->> 'provider_status' <> 'past_due'
    ) is true;
    other_as_of := record.not_past_due_as_of;
    if reported <> 'past_due' or was_other then
      other_as_of := greatest(other_as_of, occurred_at);
    end if;

    if reported = 'past_due'
      or record.provider_status = 'past_due'
      or record.past_due_as_of is not null
    then
      record.past_due_as_of := billing.earliest(
        known => record.past_due_as_of,
        occurred_at => case when reported = 'past_due' then occurred_at end,
        is_change => was_other,
        newest => case
          when record.provider_status = 'past_due' then billing.time_of(record.changed_mark)
        end,
        other_before => record.not_past_due_as_of,
        other_now => other_as_of
      );
    end if;
    record.not_past_due_as_of := other_as_of;
  end if;

  record.past_due_since := case
    when record.provider_status = 'past_due'
      then coalesce(record.past_due_as_of, billing.time_of(record.changed_mark))
  end;

  -- When was it paid again?
  if counts and event.kind in ('creation', 'opening_update') then
    unpaid_now := greatest(record.unpaid_as_of, case
      when reported in ('past_due', 'unpaid', 'incomplete') then occurred_at
      when event.kind = 'creation' then '-infinity'
    end);
    record.recovered_as_of := billing.recovered(
      record,
      unpaid_now,
      paid_at => case
        when event.kind = 'opening_update' and reported in ('active', 'trialing') then occurred_at
      end
    );
    record.unpaid_as_of := unpaid_now;
  end if;

  return (null, record, record.account_id, payment, outcome, null, null)::billing.step;
end;
$$;

create aggregate billing.fold (billing.records, billing.event) (
  sfunc = billing.next,
  stype = billing.step
);

-- Returns when a state began: at the first known time after the newest time of another state. If
-- past_due was reported at 10:00 and 12:00, it began at 10:00; once an event of 11:00 that reports
-- active arrives, at 12:00. At the very time of another state, only a change to the state counts.
--
-- known is the result without this event, occurred_at its time and newest that of the newest
-- update, if they report the state. other_before and other_now are the newest time of another
-- state, without and with this event.
create function billing.earliest(
  known timestamptz,
  occurred_at timestamptz,
  is_change boolean,
  newest timestamptz,
  other_before timestamptz,
  other_now timestamptz
)
returns timestamptz
language sql immutable
return least(
  case when known > other_now or other_now is not distinct from other_before then known end,
  case
    when (occurred_at < other_now or occurred_at = other_now and not is_change) is not true
      then occurred_at
  end,
  case when newest > other_now then newest end
);

-- Returns when a subscription was paid again, if updates never say what they replaced (all formats
-- but Stripe). The account is not told of a payment that failed before that (08).
--
-- unpaid_now says when it was last unpaid. Null: at first, as a payment that failed was in a
-- checkout that went on. -infinity: never, as a creation has come.
create function billing.recovered(
  record billing.records,
  unpaid_now timestamptz,
  paid_at timestamptz
)
returns timestamptz
language sql immutable
return coalesce(
  case
    when unpaid_now is distinct from '-infinity' then billing.earliest(
      known => case
        when (record.recovered_as_of < record.unpaid_as_of) is not true then record.recovered_as_of
      end,
      occurred_at => paid_at,
      is_change => true,
      newest => case
        when record.provider_status in ('active', 'trialing')
          and billing.is_update(record.changed_mark)
          and record.changed_in_second is null
          then billing.time_of(record.changed_mark)
      end,
      other_before => record.unpaid_as_of,
      other_now => unpaid_now
    )
  end,
  case when record.unpaid_as_of is not null then record.recovered_as_of end
);

-- Returns the record after another update with the mark of its newest one: each field has the value
-- that some update states and none replaced ("Updates of the same second" in docs/decisions.md). A
-- previous value that equals the update's own replaced nothing: Stripe sends all old items if any
-- part of them changed.
create function billing.settle(record billing.records, event billing.event)
returns billing.records
language plpgsql stable
set search_path = ''
set timezone = 'UTC' -- times are compared as text
as $$
declare
  stated constant jsonb := billing.as_stored(event.report);
  updates jsonb := case jsonb_typeof(record.changed_in_second)
    when 'array' then record.changed_in_second
    else jsonb_build_array(jsonb_build_object(
      'stated', (
        select coalesce(jsonb_object_agg(f.key, f.value), '{}')
        from jsonb_each(to_jsonb(record)) as f
        where stated ? f.key
      ),
      'replaced', billing.as_stored(record.changed_in_second)
    ))
  end || jsonb_build_object('stated', stated, 'replaced', billing.as_stored(event.previous));
begin
  if jsonb_array_length(updates) > 50 then
    updates := updates - 0;
  end if;

  record := jsonb_populate_record(record, (
    with field as (
      select
        u.arrival,
        f.key as name,
        f.value as stated,
        u.item -> 'replaced' -> f.key as replaced
      from jsonb_array_elements(updates) with ordinality as u (item, arrival),
        jsonb_each(u.item -> 'stated') as f
    )
    select jsonb_object_agg(last.name, last.stated)
    from (
      select distinct on (s.name) s.name, s.stated
      from field s
      order by
        s.name,
        -- Uncorrelated, so it is hashed: 50 updates have hundreds of values.
        (s.name, s.stated) in (
          select r.name, r.replaced from field r where r.replaced <> r.stated
        ),
        s.arrival desc
    ) as last
  ));
  record.changed_in_second := updates;
  return record;
end;
$$;

-- Returns the values of a report as to_jsonb shows them in a record.
create function billing.as_stored(report jsonb)
returns jsonb
language plpgsql stable -- plpgsql keeps its plan, sql does not
set search_path = ''
as $$
begin
  return (
    select coalesce(jsonb_object_agg(f.key, f.value), '{}')
    from jsonb_each(to_jsonb(jsonb_populate_record(null::billing.records, report))) as f
    where report ? f.key
  );
end;
$$;
