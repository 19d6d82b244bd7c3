-- How an array of events is applied: exactly once, each with its own outcome, in one call.
--
-- Locks are taken in one order: rows of the ledger by key, accounts (shared), subscriptions by id, those of many
-- customers (shared by those who add one), rows of failed_events. Only other calls are waited for, and only by the
-- first try: a person who has locked a record must not hold up the events of others. The receiver tries an event
-- again that found its record locked. Each wait is shorter than deadlock_timeout (a second by default), so no call
-- becomes the victim of a deadlock; as a rule, all of a call take half a second.
--
-- An erasure takes the locks of an account, its subscriptions and customers, all or none, and waits for none: events
-- that come after it would wait behind it.

-- Applies each event (billing.event) of an array exactly once. Returns a row per event: its place, the outcome (applied,
-- duplicate, stale, erased or failed), for failed the SQLSTATE and message; and whether a retry is requested, if an
-- event may have cured a failure.
create or replace function public.billing_apply_events(events jsonb)
returns table (place integer, outcome text, error_code text, error text, retries boolean)
language plpgsql volatile set search_path = ''
-- Planning takes longer than applying.
set plan_cache_mode = force_generic_plan
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
      case e.kind when 'checkout' then billing.customer_hash(e.provider, e.report ->> 'customer_id') end,
      e.place
    ), '{}'),
    array_agg(e.subscription_id) filter (where billing.opens(e)),
    bool_or(billing.opens(e) or e.kind = 'checkout')
  into todo, opened, may_cure
  from jsonb_populate_recordset(blank, events) as e;

  answers := billing.apply(todo);

  if opened is not null then
    -- What lacked a record or account that others of the array may have brought comes after them, as a retry would.
    again := array(
      select e
      from unnest(answers) as a
      join unnest(todo) as e on e.place = a.place
      where a.error_code in ('BW001', 'BW005', 'BW006') and e.subscription_id = any (opened)
      order by e.subscription_id, billing.opens(e) desc, e.place
    );
    if again <> '{}' then
      answers := array(
        select a from unnest(answers) as a where a.place not in (select e.place from unnest(again) as e)
      ) || billing.apply(again);
    end if;
  end if;

  may_cure := may_cure and billing.has_request();
  return query select a.*, may_cure from unnest(answers) as a;
end;
$$;

-- Applies sorted events together. What a statement raises (a check or trigger of the app, a lock) concerns all of them,
-- so each half is tried by itself, down to the one at fault: it fails, and the others are applied. This is so whatever
-- the error: one of the server may come from one event, and PostgREST before 16 repeats a call that raises 40001 for ever.
create or replace function billing.apply(todo billing.event[], has_handler boolean default false)
returns billing.answer[] language plpgsql volatile set search_path = ''
-- A plan that was made while a table was empty would read all of it, and be kept. All that this calls has them, too.
-- What is off makes other plans look dear, so Postgres would compile them (jit), which takes far longer than they do.
set jit = off
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_material = off
as $$
declare
  half constant integer := cardinality(todo) / 2;
  latest constant timestamptz := statement_timestamp() + interval '0.3 s';
  claims text[];
  accounts bigint[];
  account bigint;
  claimed billing.event[] := todo;
  work record;
  raised_in text;
  raised_by text;
  customer text;
  opened text;
  _ text;
begin
  with own as (
    insert into billing.processed_events (provider, event_id, type)
    select e.provider, e.event_id, e.type from unnest(todo) as e order by e.provider, e.event_id
    on conflict do nothing
    returning provider || '/' || event_id as claim
  )
  select
    coalesce(array_agg(o.claim), '{}'),
    (
      select array_agg(billing.account_lock(coalesce(e.account_id, e.fallback_account)))
      from unnest(todo) as e
      where e.account_id is not null or e.fallback_account is not null
    )
  into claims, accounts
  from own as o;
  if claims = '{}' then
    return array(select (e.place, 'duplicate', null, null)::billing.answer from unnest(todo) as e);
  end if;
  if cardinality(claims) < cardinality(todo) then
    -- Without duplicates; of copies within the call, the first.
    claimed := array(
      select e from unnest(todo) as e
      where e.provider || '/' || e.event_id = any (claims) and e.place = (
        select min(c.place) from unnest(todo) as c where c.provider = e.provider and c.event_id = e.event_id
      )
    );
  end if;

  -- An assignment costs less than a statement. Only an erasure holds up an event here, before the locks that others
  -- may want.
  if accounts is not null then
    foreach account in array accounts loop
      _ := pg_advisory_xact_lock_shared(account);
    end loop;
  end if;
  for i in 1 .. cardinality(claimed) loop
    if clock_timestamp() > latest and current_setting('lock_timeout') <> '1ms' then
      -- It has waited before: lock_timeout is of one wait.
      _ := set_config('lock_timeout', '20ms', true);
    end if;
    if claimed[i].kind = 'checkout' then
      _ := pg_advisory_xact_lock_shared(
        billing.customer_lock(claimed[i].provider, claimed[i].report ->> 'customer_id')
      );
    else
      _ := pg_advisory_xact_lock(hashtextextended(claimed[i].subscription_id, 0));
    end if;
  end loop;
  -- From here on, only what the app has added to the tables waits.
  _ := set_config('lock_timeout', billing.lock_patience(), true);

  if exists (select from billing.erasures) then
    for i in 1 .. cardinality(claimed) loop
      claimed[i].is_erased
        := billing.erasure_of(claimed[i], coalesce(claimed[i].subscription_id = opened, false)) is not null;
      if billing.opens(claimed[i]) and not claimed[i].is_erased and (
        num_nonnulls(claimed[i].account_id, claimed[i].fallback_account) > 0
        or billing.is_known_customer(claimed[i].provider, claimed[i].report ->> 'customer_id')
      ) then
        opened := claimed[i].subscription_id; -- Its other events come next.
      end if;
    end loop;
  end if;

  -- What the events do: those of each subscription, folded over its record, which is locked without waiting (55P03).
  -- Once more if one lacked an account that its customer may have.
  for pass in 1 .. 2 loop
    select
      array_agg(((f.e).place, (f.step).outcome, (f.step).error_code, (f.step).error)::billing.answer) as answers,
      -- The mark tells in most cases, and costs less.
      array_agg((f.step).record) filter (where f.is_last and (
        ((f.step).record).changed_as_of is distinct from (f.stored).changed_as_of
        or (f.step).record is distinct from f.stored
      )) as changed,
      -- What is new, or belongs to another customer or account: failures may have waited for it.
      array_agg((f.step).record) filter (where f.is_last and (
        ((f.step).record).account_id is distinct from (f.stored).account_id
        or ((f.step).record).customer_id is distinct from (f.stored).customer_id
      )) as gained,
      -- Of the events that do more than change a record. Without the records, because steps are copied often.
      array_agg((f.e, null, (f.step).account_id, (f.step).payment, (f.step).outcome, null, null)::billing.step)
        filter (where f.is_filed or (f.step).payment is not null or (f.step).outcome <> 'applied'
          or (f.e).kind = 'checkout') as steps,
      bool_or(f.is_filed) as any_filed,
      bool_or((f.step).payment is not null) as any_payment,
      bool_or((f.step).outcome = 'stale') as any_stale,
      bool_or((f.step).outcome in ('failed', 'erased')) as any_failed,
      bool_or((f.step).error_code = 'BW005') as lacks_account,
      bool_or((f.e).kind = 'checkout') as any_checkout
    into work
    from (
      select
        t.e, s.stored,
        billing.fold(s.stored, t.e) over sequence as step,
        lead(true) over sequence is null as is_last,
        -- From a retry, or with an open failure. One of the other provider with this ID does no harm.
        (t.e).retry is not null or (t.e).event_id = any (array(
          select o.event_id from billing.failed_events o
          where o.event_id = any (array(select c.event_id from unnest(claimed) as c)) and o.resolution is null
        )) as is_filed
      from (select unnest(claimed) as e, generate_subscripts(claimed, 1) as turn) as t
      left join lateral (
        select r as stored from billing.records r where r.id = (t.e).subscription_id for no key update nowait
      ) as s on true
      window sequence as (partition by (t.e).subscription_id order by t.turn)
    ) as f;
    exit when pass = 2 or work.lacks_account is not true;
    for i in 1 .. cardinality(claimed) loop
      if exists (select from unnest(work.answers) as a where a.place = claimed[i].place and a.error_code = 'BW005') then
        customer := claimed[i].report ->> 'customer_id';
        if customer is not null then
          claimed[i].customers_account := billing.account_of_customer(claimed[i].provider, customer);
        end if;
        if claimed[i].customers_account is not null then
          -- Known late, so this hardly waits for an erasure, which does not wait for the locks that this holds.
          _ := pg_advisory_xact_lock_shared(billing.account_lock(claimed[i].customers_account));
          if exists (select from billing.erasures) then
            -- It may just have been erased.
            claimed[i].customers_account := billing.account_of_customer(claimed[i].provider, customer);
            claimed[i].is_erased := billing.erasure_of(claimed[i]) is not null;
          end if;
        end if;
        claimed[i].customers_account := coalesce(claimed[i].customers_account, claimed[i].fallback_account);
      end if;
    end loop;
  end loop;

  if work.changed is not null then
    _ := billing.write_records(work.changed);
  end if;
  if work.any_payment then
    perform billing.notify_accounts(work.steps);
  end if;
  if work.any_checkout then
    -- What is there wins: the app may have corrected it.
    insert into billing.customers (provider, customer_id, account_id)
    select distinct on (e.provider, c.id) e.provider, c.id, s.account_id
    from unnest(work.steps) as s, unnest(array[s.event]) as e, lateral (select e.report ->> 'customer_id') as c (id)
    where e.kind = 'checkout' and s.outcome = 'applied' and c.id is not null and s.account_id is not null
    order by e.provider, c.id, e.place
    on conflict do nothing;
  end if;
  if work.any_filed then
    perform billing.resolve_failures(work.steps);
  end if;
  if work.gained is not null then
    -- Who stores a failure without an account takes this lock too.
    perform pg_advisory_xact_lock_shared(c.lock)
    from (
      select distinct billing.customer_lock(g.provider, g.customer_id) as lock
      from unnest(work.gained) as g where g.customer_id is not null
      order by 1
    ) as c;
    perform billing.request_retries(array_agg(g.provider), array_agg(g.id), array_agg(g.customer_id))
    from unnest(work.gained) as g;
  end if;
  if work.any_stale then
    update billing.processed_events p set outcome = 'stale'
    from unnest(work.steps) as s
    where p.provider = (s.event).provider and p.event_id = (s.event).event_id and s.outcome = 'stale';
  end if;
  if work.any_failed then
    -- They may come again.
    delete from billing.processed_events p
    using unnest(work.steps) as s
    where p.provider = (s.event).provider and p.event_id = (s.event).event_id and s.outcome in ('failed', 'erased');
    update billing.erasures e set purchases = e.purchases + p.count
    from (
      select billing.erasure_of(s.event) as hash, count(*)
      from unnest(work.steps) as s
      where s.outcome = 'erased' and (s.event).kind in ('creation', 'opening_update')
      group by 1
    ) as p
    where e.hash = p.hash;
  end if;
  if not has_handler then
    -- What an app checks at the end of a transaction would fail the whole call there.
    set constraints all immediate;
  end if;

  if not work.any_failed and cardinality(claimed) = cardinality(todo) then
    return work.answers;
  end if;
  -- A copy of an event that failed has failed as well; others that were not claimed are duplicates.
  return array(
    select (e.place, case when c.place = e.place or a.outcome = 'failed' then a.outcome else 'duplicate' end,
      case when (a.error_code = 'BW001') is true and billing.is_known_customer(e.provider, e.report ->> 'customer_id')
        then 'BW006' else a.error_code end, a.error)::billing.answer
    from unnest(todo) as e
    left join unnest(claimed) as c on c.provider = e.provider and c.event_id = e.event_id
    left join unnest(work.answers) as a on a.place = c.place
  );
exception when others or assert_failure then
  if half = 0 then
    get stacked diagnostics raised_in = pg_exception_context;
    raised_by := (regexp_match(raised_in, '(?n)^(?:PL/pgSQL|SQL) function "?([^(" ]+)'))[1];
    -- What a function of the app lacks (42: a table, a right) is the app's to correct, not the migration's.
    if sqlstate ~ '^42' and (raised_by !~ '^billing\.' or raised_by ~ 'account_of_customer$') then
      return array[(todo[1].place, 'failed', 'BW008',
        format('%s raised %s: %s', raised_by, sqlstate, sqlerrm))::billing.answer];
    end if;
    return array[(todo[1].place, 'failed', sqlstate, sqlerrm)::billing.answer];
  end if;
  -- While the second half is tried, this call still holds the locks of the first: two could wait for each other.
  perform set_config('lock_timeout', billing.lock_patience(), true);
  return billing.apply(todo[:half]) || billing.apply(todo[half + 1:]);
end;
$$;

-- Returns how long to wait for the next lock, as a value of lock_timeout: not long, because a call that waits holds
-- locks, and a locked event is tried once per level of halving.
create or replace function billing.lock_patience()
returns text language sql volatile
return case when clock_timestamp() < statement_timestamp() + interval '0.3 s' then '20ms' else '1ms' end;

-- Returns the advisory lock of an account, which each event that names it shares.
create or replace function billing.account_lock(account_id text)
returns bigint language sql immutable
return hashtextextended(account_id, 1);

-- Returns the advisory lock of a customer: an erasure has it, and who stores a failure shares it.
create or replace function billing.customer_hash(provider text, customer_id text)
returns bigint language sql immutable
return hashtextextended(provider || ':' || customer_id, 2);

-- Returns the advisory lock of all who add such customers; a failure that lacks the account of one is stored under it
-- alone. There are a thousand, since Postgres has room for a few thousand locks, and an app may add a million customers
-- in one transaction. In the order of customer_hash.
create or replace function billing.customer_lock(provider text, customer_id text)
returns bigint language sql immutable
return hashtextextended('billing.customers', 0)
  + (hashtextextended(provider || ':' || customer_id, 2) >> 54);

-- Writes the records: all columns of billing.records, the list of "insert" in its order. Into the table, since Postgres
-- before 17 cannot merge into a view. "insert ... on conflict" would fire triggers of the app that are for new
-- subscriptions.
create or replace function billing.write_records(changed billing.records[])
returns void
language plpgsql volatile
set search_path = ''
as $$
begin
  merge into billing.subscriptions as s
  using unnest(changed) as r on s.id = r.id

  when matched then update set
    provider = r.provider,
    account_id = r.account_id,
    status = r.status,
    plan_id = r.plan_id,
    current_period_end = r.current_period_end,
    canceled_at = r.canceled_at,
    provider_status = r.provider_status,
    customer_id = r.customer_id,
    quantity = r.quantity,
    cancel_at = r.cancel_at,
    trial_end = r.trial_end,
    paused = r.paused,
    paused_until = r.paused_until,
    livemode = r.livemode,
    items = r.items,
    items_complete = r.items_complete,
    past_due_since = r.past_due_since,
    past_due_as_of = r.past_due_as_of,
    not_past_due_as_of = r.not_past_due_as_of,
    recovered_as_of = r.recovered_as_of,
    unpaid_as_of = r.unpaid_as_of,
    account_as_of = r.account_as_of,
    changed_as_of = r.changed_as_of,
    changed_in_second = r.changed_in_second,
    canceled_as_of = r.canceled_as_of,
    alive_as_of = r.alive_as_of

  when not matched then insert (
    id,
    provider,
    account_id,
    status,
    plan_id,
    current_period_end,
    canceled_at,
    provider_status,
    customer_id,
    quantity,
    cancel_at,
    trial_end,
    paused,
    paused_until,
    livemode,
    items,
    items_complete,
    past_due_since,
    past_due_as_of,
    not_past_due_as_of,
    recovered_as_of,
    unpaid_as_of,
    account_as_of,
    changed_as_of,
    changed_in_second,
    canceled_as_of,
    alive_as_of
  )
  values (r.*);
end;
$$;

-- Returns whether the account of a customer is known. Then an event's subscription is ours, and its creation may still
-- come (BW006). If account_of_customer raises an error, it is taken for known.
create or replace function billing.is_known_customer(provider text, customer_id text)
returns boolean language plpgsql volatile set search_path = '' as $$
begin
  return customer_id is not null and billing.account_of_customer(provider, customer_id) is not null;
exception when others then
  return true;
end;
$$;
