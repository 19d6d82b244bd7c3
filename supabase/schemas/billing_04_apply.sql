-- How an array of events is applied:
--   public.billing_apply_events     sorts them; tries again what others may have cured
--     billing.apply                 applies a batch, or each half by itself
--       1. billing.claim_events     adds them to the ledger; leaves out duplicates
--       2. billing.lock_events      waits for other calls with these subscriptions
--       3. billing.mark_erased      marks those of erased accounts (11)
--       4. billing.work_out         folds the rule (03) over the records
--            billing.with_accounts  adds accounts of customers, to work it out again
--       5. billing.write_records
--       6. billing.write_effects    ends failures (06), requests retries (07), notifies (08)
--          billing.count_missed     those that a sweep has found (13)
--       7. billing.answer_all
--
-- Locks are taken in this order:
--   1. rows of the ledger, by key
--   2. accounts that events name; subscriptions by ID; groups of customers
--   4. rows of subscriptions; late, the account of a customer
--   6. rows of failed_events; groups of customers who gained a subscription
--
--   advisory lock          exclusive                          shared
--   account_lock           its erasure                        events and failures that name it
--   subscription_lock      its events, failures and erasure
--   customer_erasure_lock  its erasure                        its failures
--   customer_group_lock    a failure that lacks an account    who adds such customers
--
-- A call waits for the ledger and advisory locks: up to 0.5 s; after step 2 or halving 20 ms; late
-- in the call 1 ms. All are below deadlock_timeout: no call is the victim of a deadlock. It waits
-- for no other row ("No function waits for a row" in docs/decisions.md).
--
-- The planner's policy: a plan that was made while a table was empty would read all of it, and be
-- kept. So plans that suit small tables are off (enable_...) for all that such a function calls,
-- and a condition that would invite another index is an expression ("is true", a subquery). Other
-- plans then look dear, so jit is off, too: compiling them takes far longer than they do.

-- Applies each event of an array exactly once. Returns a row per event, with its outcome (applied,
-- duplicate, stale, erased or failed), and whether a retry is requested, if an event may have cured
-- a failure.
create function public.billing_apply_events(events jsonb)
returns table (place integer, outcome text, error_code text, error text, retries boolean)
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_generic_plan -- planning takes longer than running
set lock_timeout = '500ms'
as $$
declare
  blank billing.event;
  todo billing.event[];
  again billing.event[];
  opened text[];
  may_cure boolean;
  answers billing.answer[];
begin
  blank.handled_at := now();

  select
    coalesce(array_agg(e order by
      e.subscription_id,
      -- Its first bits decide the lock of the group.
      case e.kind
        when 'checkout' then billing.customer_erasure_lock(e.provider, e.report ->> 'customer_id')
      end,
      e.place
    ), '{}'),
    array_agg(e.subscription_id) filter (where billing.opens(e)),
    bool_or(billing.opens(e) or e.kind = 'checkout')
  into todo, opened, may_cure
  from jsonb_populate_recordset(blank, events) as e;

  answers := billing.apply(todo);

  -- Events that lacked a record or account which others may have brought come after them.
  if opened is not null then
    again := array(
      select e
      from unnest(answers) as a
      join unnest(todo) as e on e.place = a.place
      where a.error_code in ('BW001', 'BW005', 'BW006')
        and e.subscription_id = any (opened)
      order by e.subscription_id, billing.opens(e) desc, e.place
    );
    if again <> '{}' then
      answers := array(
        select a
        from unnest(answers) as a
        where a.place not in (select e.place from unnest(again) as e)
      ) || billing.apply(again);
    end if;
  end if;

  may_cure := may_cure and billing.has_request();
  perform billing.tell_version();
  return query select a.*, may_cure from unnest(answers) as a;
end;
$$;

-- Applies sorted events together. What a statement raises concerns all of them, so each half is
-- tried by itself, down to the event at fault: any error, as one of the server may come from one
-- event, and PostgREST before 16 repeats 40001 for ever.
create function billing.apply(todo billing.event[], has_handler boolean default false)
returns billing.answer[]
language plpgsql volatile
set search_path = ''
set jit = off -- the planner's policy
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_material = off
as $$
declare
  half constant integer := cardinality(todo) / 2;
  claimed billing.event[];
  work billing.work;
  done text; -- never read: an assignment costs less than "perform"
  raised_in text;
  raised_by text;
begin
  claimed := billing.claim_events(todo);
  if cardinality(claimed) = 0 then
    return billing.answer_all(todo, claimed, null);
  end if;

  done := billing.lock_events(claimed);

  if exists (select from billing.erasures) then
    claimed := billing.mark_erased(claimed);
  end if;

  work := billing.work_out(claimed);
  if work.lacking is not null then
    claimed := billing.with_accounts(claimed, work.lacking);
    work := billing.work_out(claimed);
  end if;

  if work.changed is not null then
    done := billing.write_records(work.changed);
  end if;
  if work.steps is not null or work.gained is not null then
    done := billing.write_effects(work);
  end if;
  if claimed[1].is_missed then
    perform billing.count_missed(claimed[1].provider, array(
      select e.type
      from unnest(claimed) as e
      join unnest(work.answers) as a on a.place = e.place
      where a.outcome in ('applied', 'stale')
    ));
  end if;
  if not has_handler then
    -- Deferred checks of the app would fail the whole call at its end.
    set constraints all immediate;
  end if;

  if work.any_failed or cardinality(claimed) < cardinality(todo) then
    return billing.answer_all(todo, claimed, work.answers);
  end if;
  return work.answers;

exception when others or assert_failure then
  if half = 0 then
    get stacked diagnostics raised_in = pg_exception_context;
    raised_by := (regexp_match(raised_in, '(?n)^(?:PL/pgSQL|SQL) function "?([^(" ]+)'))[1];

    -- A function of the app that lacks something (42: a table, a right) is the app's to correct.
    if sqlstate ~ '^42' and (raised_by !~ '^billing\.' or raised_by ~ 'account_of_customer$') then
      return array[(
        todo[1].place,
        'failed',
        'BW008',
        format('%s raised %s: %s', raised_by, sqlstate, sqlerrm)
      )::billing.answer];
    end if;
    return array[(todo[1].place, 'failed', sqlstate, sqlerrm)::billing.answer];
  end if;

  -- The locks of the first half are held while the second is tried: calls could wait in a circle.
  perform set_config('lock_timeout', billing.lock_patience(), true);
  return billing.apply(todo[:half]) || billing.apply(todo[half + 1:]);
end;
$$;

-- Returns the new events; of copies in the batch, the first.
create function billing.claim_events(todo billing.event[])
returns billing.event[]
language plpgsql volatile
set search_path = ''
as $$
declare
  keys text[];
begin
  with claim as (
    insert into billing.processed_events (provider, event_id, type)
    select e.provider, e.event_id, e.type
    from unnest(todo) as e
    order by e.provider, e.event_id
    on conflict do nothing
    returning provider || '/' || event_id as key
  )
  select array_agg(c.key) into keys from claim as c;

  if cardinality(keys) = cardinality(todo) then
    return todo;
  end if;

  return array(
    select e
    from unnest(todo) as e
    where e.provider || '/' || e.event_id = any (keys)
      and e.place = (
        select min(copy.place)
        from unnest(todo) as copy
        where copy.provider = e.provider and copy.event_id = e.event_id
      )
  );
end;
$$;

create function billing.lock_events(claimed billing.event[])
returns void
language plpgsql volatile
set search_path = ''
as $$
declare
  patient_until constant timestamptz := statement_timestamp() + interval '0.3 s';
  done text;
begin
  -- Only an erasure holds up an event here, before the locks that others may want.
  for i in 1 .. cardinality(claimed) loop
    done := pg_advisory_xact_lock_shared(billing.account_lock(
      coalesce(claimed[i].account_id, claimed[i].named_account, claimed[i].fallback_account)
    ));
  end loop;

  for i in 1 .. cardinality(claimed) loop
    -- lock_timeout is for one wait, and this has waited before. 1ms is less already.
    if clock_timestamp() > patient_until and current_setting('lock_timeout') <> '1ms' then
      done := set_config('lock_timeout', '20ms', true);
    end if;

    if claimed[i].kind = 'checkout' then
      done := pg_advisory_xact_lock_shared(
        billing.customer_group_lock(claimed[i].provider, claimed[i].report ->> 'customer_id')
      );
    else
      done := pg_advisory_xact_lock(billing.subscription_lock(claimed[i].subscription_id));
    end if;
  end loop;

  -- From here on, only what the app has added to the tables waits.
  done := set_config('lock_timeout', billing.lock_patience(), true);
end;
$$;

-- Sets is_erased. The events of a subscription come one after the other.
create function billing.mark_erased(claimed billing.event[])
returns billing.event[]
language plpgsql volatile
set search_path = ''
as $$
declare
  opened text; -- the subscription that an earlier event makes
begin
  for i in 1 .. cardinality(claimed) loop
    claimed[i].is_erased := billing.erasure_of(
      claimed[i],
      coalesce(claimed[i].subscription_id = opened, false)
    ) is not null;

    if billing.opens(claimed[i]) and not claimed[i].is_erased and (
      num_nonnulls(claimed[i].account_id, claimed[i].fallback_account) > 0
      or billing.is_known_customer(claimed[i].provider, claimed[i].report ->> 'customer_id')
    ) then
      opened := claimed[i].subscription_id;
    end if;
  end loop;
  return claimed;
end;
$$;

-- Returns what is to be written. Locks the records without waiting (55P03).
create function billing.work_out(claimed billing.event[])
returns billing.work
language plpgsql volatile
set search_path = ''
as $$
declare
  work billing.work;
begin
  select
    array_agg((
      (f.event).place,
      (f.step).outcome,
      (f.step).error_code,
      (f.step).error
    )::billing.answer) as answers,

    -- The mark tells in most cases, and costs less.
    array_agg((f.step).record) filter (
      where f.is_last and (
        ((f.step).record).changed_mark is distinct from (f.stored).changed_mark
        or (f.step).record is distinct from f.stored
      )
    ) as changed,

    array_agg((f.step).record) filter (
      where f.is_last and (
        ((f.step).record).account_id is distinct from (f.stored).account_id
        or ((f.step).record).customer_id is distinct from (f.stored).customer_id
      )
    ) as gained,

    -- Without records, because steps are copied often.
    array_agg((
      f.event,
      null,
      (f.step).account_id,
      (f.step).payment,
      (f.step).outcome,
      null,
      null
    )::billing.step) filter (
      where f.is_filed
        or (f.step).payment is not null
        or (f.step).outcome <> 'applied'
        or (f.event).kind = 'checkout'
    ) as steps,

    bool_or(f.is_filed) as any_filed,
    bool_or((f.step).outcome in ('failed', 'erased')) as any_failed,
    array_agg((f.event).place) filter (where (f.step).error_code = 'BW005') as lacking
  into work
  from (
    select
      t.event,
      s.stored,
      -- A running total: the step after each event; the last one has the record.
      billing.fold(s.stored, t.event) over sequence as step,
      lead(true) over sequence is null as is_last,
      -- A failure of the other provider with this event ID does no harm.
      (t.event).retry is not null or (t.event).event_id = any (array(
        select o.event_id
        from billing.failed_events o
        where o.event_id = any (array(select c.event_id from unnest(claimed) as c))
          and o.resolution is null
      )) as is_filed
    from (
      select unnest(claimed) as event, generate_subscripts(claimed, 1) as turn
    ) as t
    left join lateral (
      select r as stored
      from billing.records r
      where r.id = (t.event).subscription_id
      for no key update nowait
    ) as s on true
    window sequence as (partition by (t.event).subscription_id order by t.turn)
  ) as f;

  return work;
end;
$$;

create function billing.with_accounts(claimed billing.event[], lacking integer[])
returns billing.event[]
language plpgsql volatile
set search_path = ''
as $$
declare
  customer text;
  account text;
begin
  for i in 1 .. cardinality(claimed) loop
    continue when (claimed[i].place = any (lacking)) is not true;

    customer := claimed[i].report ->> 'customer_id';
    account := case
      when customer is not null then billing.account_of_customer(claimed[i].provider, customer)
    end;

    if account is not null then
      -- Known late, so this hardly waits for an erasure, which waits for no lock of this call.
      perform pg_advisory_xact_lock_shared(billing.account_lock(account));
      if exists (select from billing.erasures) then
        -- It may just have been erased.
        account := billing.account_of_customer(claimed[i].provider, customer);
        claimed[i].customers_account := account;
        claimed[i].is_erased := billing.erasure_of(claimed[i]) is not null;
      end if;
    end if;
    claimed[i].customers_account := coalesce(account, claimed[i].fallback_account);
  end loop;
  return claimed;
end;
$$;

-- billing.write_records names all columns of billing.records: "row (r.*)" is slower. It merges into
-- the table, since Postgres before 17 cannot merge into a view; "insert ... on conflict" would fire
-- triggers for new subscriptions.
do $$
begin
  execute (
    select format(
      $sql$
create function billing.write_records(changed billing.records[])
returns void
language plpgsql volatile
set search_path = ''
as $body$
begin
  merge into billing.subscriptions as s
  using unnest(changed) as r on s.id = r.id
  when matched then update set %s
  when not matched then insert (%s) values (r.*);
end;
$body$
      $sql$,
      string_agg(format('%1$I = r.%1$I', a.attname), ', ') filter (where a.attname <> 'id'),
      string_agg(format('%I', a.attname), ', ' order by a.attnum)
    )
    from pg_catalog.pg_attribute a
    where a.attrelid = 'billing.records'::regclass and a.attnum > 0
  );
end;
$$;

create function billing.write_effects(work billing.work)
returns void
language plpgsql volatile
set search_path = ''
as $$
begin
  if work.steps is not null then
    perform billing.notify_accounts(work.steps);

    -- An account that is there wins: the app may have corrected it.
    insert into billing.customers (provider, customer_id, account_id)
    select distinct on (e.provider, c.id) e.provider, c.id, s.account_id
    from unnest(work.steps) as s,
      unnest(array[s.event]) as e,
      lateral (select e.report ->> 'customer_id') as c (id)
    where e.kind = 'checkout'
      and s.outcome = 'applied'
      and c.id is not null
      and s.account_id is not null
    order by e.provider, c.id, e.place
    on conflict do nothing;

    merge into billing.processed_events as p
    using unnest(work.steps) as s
    on p.provider = (s.event).provider
      and p.event_id = (s.event).event_id
      and s.outcome <> 'applied'
    when matched and s.outcome = 'stale' then update set outcome = 'stale'
    -- It failed or is erased, and may come again.
    when matched then delete;
  end if;

  if work.any_filed then
    perform billing.resolve_failures(work.steps);
  end if;

  if work.gained is not null then
    perform pg_advisory_xact_lock_shared(c.lock)
    from (
      select distinct billing.customer_group_lock(g.provider, g.customer_id) as lock
      from unnest(work.gained) as g
      order by 1
    ) as c;

    perform billing.request_retries(
      array_agg(g.provider),
      array_agg(g.id),
      array_agg(g.customer_id)
    )
    from unnest(work.gained) as g;
  end if;

  if work.any_failed then
    update billing.erasures e
    set purchases = e.purchases + p.count
    from (
      select billing.erasure_of(s.event) as hash, count(*)
      from unnest(work.steps) as s
      where s.outcome = 'erased' and (s.event).kind in ('creation', 'opening_update')
      group by 1
    ) as p
    where e.hash = p.hash;
  end if;
end;
$$;

-- Returns an answer per event. A copy of one that failed has failed as well; others that were not
-- claimed are duplicates.
create function billing.answer_all(
  todo billing.event[],
  claimed billing.event[],
  answers billing.answer[]
)
returns billing.answer[]
language plpgsql volatile
set search_path = ''
as $$
begin
  return array(
    select (
      e.place,
      case when c.place = e.place or a.outcome = 'failed' then a.outcome else 'duplicate' end,
      case
        when (a.error_code = 'BW001') is true
          and billing.is_known_customer(e.provider, e.report ->> 'customer_id') then 'BW006'
        else a.error_code
      end,
      a.error
    )::billing.answer
    from unnest(todo) as e
    left join unnest(claimed) as c on c.provider = e.provider and c.event_id = e.event_id
    left join unnest(answers) as a on a.place = c.place
  );
end;
$$;

-- Returns whether the account of a customer is known, or account_of_customer raises an error. Then
-- an event's subscription is ours, and its creation may still come (BW006).
create function billing.is_known_customer(provider text, customer_id text)
returns boolean
language plpgsql volatile
set search_path = ''
as $$
begin
  return customer_id is not null
    and billing.account_of_customer(provider, customer_id) is not null;
exception when others then
  return true;
end;
$$;

-- Returns the lock_timeout for the next lock: short, because a call that waits holds locks, and a
-- locked event is tried once per level of halving.
create function billing.lock_patience()
returns text
language sql volatile
return case
  when clock_timestamp() < statement_timestamp() + interval '0.3 s' then '20ms'
  else '1ms'
end;

-- The keys of advisory locks. That of a null is null, and takes no lock.
create function billing.account_lock(account_id text)
returns bigint
language sql immutable
return hashtextextended(account_id, 1);

create function billing.subscription_lock(id text)
returns bigint
language sql immutable
return hashtextextended(id, 0);

create function billing.customer_erasure_lock(provider text, customer_id text)
returns bigint
language sql immutable
return hashtextextended(provider || ':' || customer_id, 2);

-- A thousand: Postgres has room for a few thousand locks, and an app may add a million customers.
create function billing.customer_group_lock(provider text, customer_id text)
returns bigint
language sql immutable
return hashtextextended('billing.customers', 0)
  + (billing.customer_erasure_lock(provider, customer_id) >> 54);
