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

-- Returns how long to wait for the next lock, as a value of lock_timeout: not long, because a call that waits holds
-- locks, and a locked event is tried once per level of halving.
create or replace function billing.lock_patience()
returns text language sql volatile
return case when clock_timestamp() < statement_timestamp() + interval '0.3 s' then '20ms' else '1ms' end;

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

-- Requests a retry of the failures that lacked one of these subscriptions, or the account of one of these customers;
-- returns whether there is one. Whichever came first: who stores such a failure takes the same lock, so one of the two
-- sees the other. One too many, of the other provider, does no harm. A repaired one is left to the person who repaired
-- it. A run that is trying one of them loses its claim: it has read the state before, and must not settle it as failed.
create or replace function billing.request_retries(providers text[], subscriptions text[], customers text[])
returns boolean language plpgsql volatile set search_path = '' set enable_seqscan = off set jit = off
set plan_cache_mode = force_generic_plan -- an app may add many customers at once
as $$
declare
  waiting record;
begin
  for waiting in
    select f.provider, f.event_id
    from billing.failed_events f
    -- "is true", so that a plan of an empty table cannot take the primary key.
    where f.resolution is null and (f.provider = any (providers)) is true
      and f.original_payload is null and f.payload is not null and (
      f.subscription_id = any (subscriptions)
        and f.error_code in ('subscription_unknown', 'creation_pending', 'account_unknown')
      or f.customer_id = any (customers) and f.error_code = 'account_unknown'
    )
    for update skip locked
  loop
    update billing.failed_events f set retry_requested_at = coalesce(f.retry_requested_at, now()), retry_lease_id = null
    where f.provider = waiting.provider and f.event_id = waiting.event_id;
  end loop;
  return found;
end;
$$;

-- A new or corrected customer, from a checkout or from the app, cures the failures that lacked its account. The lock is shared:
-- transactions that add different customers, in whatever order, must not wait for each other.
create or replace function billing.retry_creations()
returns trigger language plpgsql volatile set search_path = '' as $$
begin
  perform pg_advisory_xact_lock_shared(billing.customer_lock(new.provider, new.customer_id));
  if billing.request_retries(array[new.provider], null, array[new.customer_id]) then
    perform billing.wake_worker('retries');
  end if;
  return null;
end;
$$;

-- Deferred, so that the lock is short.
drop trigger if exists retry_creations on billing.customers;
create constraint trigger retry_creations after insert or update on billing.customers deferrable initially deferred
for each row execute function billing.retry_creations();

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

-- Returns whether a retry is requested that no run has claimed, so that the receiver wakes the worker.
create or replace function billing.has_request()
returns boolean language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return exists (select from billing.failed_events f where f.retry_requested_at is not null and f.retry_lease_id is null);
end;
$$;

-- Writes the notifications that applied events owe. With once_per_invoice, the first event of an invoice creates the
-- only one of its kind; one that was withdrawn has told nobody, and does not count. Two events of an invoice cannot
-- both find none: it belongs to one subscription, whose lock the caller holds.
create or replace function billing.notify_accounts(steps billing.step[])
returns void language plpgsql volatile set search_path = '' as $$
begin
  insert into billing.notifications (
    provider, event_id, kind, account_id, subscription_id, occurred_at, invoice_id,
    hosted_invoice_url, amount_due, currency, attempt_count, next_payment_attempt, trial_end
  )
  select distinct on (e.provider, p.kind, coalesce(o.only_of, e.event_id))
    e.provider, e.event_id, p.kind, s.account_id, e.subscription_id, coalesce(e.occurred_at, e.handled_at), p.invoice_id,
    p.hosted_invoice_url, p.amount_due, p.currency, p.attempt_count, p.next_payment_attempt, p.trial_end
  from unnest(steps) as s,
    unnest(array[s.event]) as e,
    jsonb_populate_record(null::billing.notifications, '{"kind": "payment_failed"}' || s.payment) as p,
    lateral (select case when s.payment @> '{"once_per_invoice": true}' then p.invoice_id end) as o (only_of)
  where s.payment is not null and s.outcome = 'applied'
    and (o.only_of is null or (
      select true from billing.notifications n
      -- So that a plan of an empty table cannot take the index by provider and event.
      where n.invoice_id = o.only_of and (n.provider = e.provider and n.kind = p.kind and n.status <> 'withdrawn') is true
      limit 1
    ) is null)
  order by e.provider, p.kind, coalesce(o.only_of, e.event_id), e.place
  -- The row may outlive the event's row in the ledger, which is pruned by age.
  on conflict (provider, event_id) do nothing;
end;
$$;

-- Resolves the open failures of these events. An event whose payload was repaired is applied by nobody but the worker
-- that has claimed the repair, and a worker does not apply an event whose row was repaired, resolved or claimed again
-- after its claim (BW004). A repair ends the claim, so the lease tells.
create or replace function billing.resolve_failures(steps billing.step[])
returns void language plpgsql volatile set search_path = '' as $$
declare
  overtaken record;
begin
  select (s.event).event_id, (s.event).retry ->> 'event_id' as row_id, own.is_repaired into overtaken
  from (select e.*, ((e.event).retry ->> 'lease_id')::uuid as lease from unnest(steps) as e) as s
  left join lateral (
    select
      o.original_payload is not null and (o.retry_lease_id = s.lease) is not true
        and (s.event).is_trial is not true as is_repaired
    from billing.failed_events o
    where o.provider = (s.event).provider and o.event_id = (s.event).event_id and o.resolution is null
    for update nowait
  ) as own on true
  left join lateral (
    -- The id in a repaired payload may differ from that of its row.
    select o.event_id
    from billing.failed_events o
    where o.provider = (s.event).provider and o.event_id = (s.event).retry ->> 'event_id'
      and o.resolution is null and o.retry_lease_id = s.lease
    for update nowait
  ) as claimed on true
  where own.is_repaired or s.lease is not null and claimed.event_id is null
  limit 1;

  if overtaken.is_repaired then
    raise exception 'Event % was repaired in failed_events and waits for its retry.', overtaken.event_id
      using errcode = 'BW004', hint = format('select billing.retry_failed_event(%L);', overtaken.event_id);
  elsif found then
    raise exception 'The row of % in failed_events was changed after its claim.', overtaken.row_id
      using errcode = 'BW004';
  end if;

  update billing.failed_events o set
    resolved_at = now(), resolution = s.outcome, next_retry_at = null, retry_requested_at = null, retry_lease_id = null
  from unnest(steps) as s
  where o.provider = (s.event).provider and o.event_id = any (array[(s.event).event_id, (s.event).retry ->> 'event_id'])
    and o.resolution is null and s.outcome not in ('failed', 'erased');
  -- Nothing of an erased account is kept.
  delete from billing.failed_events o using unnest(steps) as s
  where o.provider = (s.event).provider and o.event_id = any (array[(s.event).event_id, (s.event).retry ->> 'event_id'])
    and o.resolution is null and s.outcome = 'erased';
end;
$$;

-- Returns the hash by which an event is of an account that was erased; null if it is not. That is the hash of its
-- subscription; of the account that it names, or that its customer has; or, without one, of its customer. One that only
-- changes a record is of the account of the record. A person who was erased may come back with another account, as the
-- same customer: then a record or billing.customers, which are newer than the erasure, say so. has_record: an event
-- before it in the call makes one.
create or replace function billing.erasure_of(e billing.event, has_record boolean default false)
returns bytea language plpgsql stable set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  subscription constant text := coalesce(e.subscription_id, e.report ->> 'subscription_id');
  customer constant text := e.report ->> 'customer_id';
  account text := coalesce(e.account_id, e.named_account, e.customers_account);
  found_as bytea[] := array(
    -- A subquery, so that a plan can only take the index.
    select (
      select o.hash from billing.erasures o
      where o.hash = sha256(k.key || convert_to(i.name, 'UTF8'))
    )
    from billing.erasure_key k, unnest(array[
      e.provider || ':' || subscription,
      e.provider || ':' || customer,
      'account:' || coalesce(account, e.fallback_account)
    ]) with ordinality as i (name, place)
    order by i.place
  );
begin
  if found_as[1] is not null or num_nonnulls(variadic found_as) = 0 then
    return found_as[1];
  elsif e.kind not in ('creation', 'opening_update', 'checkout', 'other')
    and (has_record or exists (select from billing.subscriptions s where s.id = subscription)) then
    return null;
  elsif account is not null then
    return found_as[3];
  end if;
  select c.account_id into e.customers_account
  from billing.customers c where c.provider = e.provider and c.customer_id = customer;
  if found then
    return billing.erasure_of(e);
  elsif has_record or exists (
    select from billing.subscriptions s
    where s.id = subscription or s.provider = e.provider and s.customer_id = customer
  ) then
    return null;
  elsif e.fallback_account is not null then
    return found_as[3];
  end if;
  return found_as[2];
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

create or replace function billing.handler_name(type text)
returns text language sql immutable
return 'on_' || regexp_replace(type, '[^a-z0-9]', '_', 'g');

-- Runs the app's handler with the settings that it has in the SQL editor, but for time limits. What it sets does not
-- outlive it, since the connection is used again: neither the role nor, for the session, any other setting.
create or replace function billing.run_handler(e billing.event, payload jsonb)
returns void language plpgsql volatile
set search_path = public, extensions, pg_temp
set lock_timeout = '2s'
as $$
declare
  role constant text := current_setting('role');
  -- PostgREST sets it for the session.
  messages constant text := current_setting('client_min_messages');
begin
  execute format('select billing.%I($1, $2)', billing.handler_name(e.type)) using e.provider, payload;
  -- What it leaves to the end of the transaction: checks, and queries of cursors.
  set constraints all immediate;
  execute 'close all';

  if current_setting('role') <> role then
    perform set_config('role', 'none', false);
    perform set_config('role', role, true);
  end if;
  reset all;
  perform set_config('client_min_messages', messages, false);
end;
$$;

-- Applies one event, which has the payload as text besides, and runs its handler: both or neither. Returns a row as
-- billing_apply_events does. What the handler raises is the outcome: no SQLSTATE of it leaves the database.
--   BW007  the handler is not there, or may not be called
--   BW008  the handler raised an error, or a trigger of the app lacks something
--   BW009  jsonb cannot hold the payload
create or replace function public.billing_apply_handled_event(event jsonb)
returns table (place integer, outcome text, error_code text, error text, retries boolean)
language plpgsql volatile set search_path = ''
set lock_timeout = '500ms'
-- PostgREST applies it to the whole call.
set statement_timeout = '2500ms'
as $$
declare
  e constant billing.event := jsonb_populate_record(
    null::billing.event, event || jsonb_build_object('place', 1, 'handled_at', now())
  );
  name constant text := billing.handler_name(e.type);
  handler constant oid := to_regprocedure(format('billing.%I(text, jsonb)', name));
  prepared constant bigint := (select count(*) from pg_prepared_statements where not from_sql);
  answer billing.answer;
  parsed jsonb;
  stage text;
begin
  begin
    answer := (billing.apply(array[e], true))[1];
    if answer.outcome in ('applied', 'stale') then
      if handler is null or not has_function_privilege(handler, 'execute') then
        raise exception using errcode = 'BW007', message = format(case
          when handler is not null then '%2$s may not execute it: grant execute on function billing.%1$s to %2$s;'
          when exists (select from pg_proc p where p.pronamespace = 'billing'::regnamespace and p.proname = name::name)
            then 'billing.%1$s has other arguments: it must be billing.%1$s(provider text, event jsonb).'
          else 'billing.%1$s is not there: create function billing.%1$s(provider text, event jsonb) returns void.'
        end, name, current_user);
      elsif exists (
        select from pg_proc p
        where p.oid = handler
          and p.prosrc ~* 'deallocate'
          -- As a statement: without comments and texts, but with those that are executed.
          and regexp_replace(
            regexp_replace(
              regexp_replace(p.prosrc, '--[^\r\n]*|/\*(?:[^*]|\*+[^/*])*\*+/', ' ', 'g'),
              '\yexecute\s*(?:format\s*)?\(?\s*''\s*(deallocate(?:[^'']|'''')*)''', ';\1;', 'gi'
            ),
            '''(?:[^'']|'''')*''', '''''', 'g'
          ) ~* '(^|;|\y(begin|then|else|loop)\y)\s*deallocate(\s+(prepare\s+)?(?!end\y)[\w%"]+)?\s*(;|$)'
      ) then
        raise exception using errcode = 'BW008', message = format(
          'billing.%s contains deallocate, which would break a connection that it shares: remove it.', name
        );
      end if;
      stage := 'read';
      parsed := event ->> 'payload';
      stage := 'run';
      perform billing.run_handler(e, parsed);
    end if;
    set constraints all immediate;
  exception when others or query_canceled or assert_failure then
    answer := case
      when stage = 'run' or sqlstate = '57014' then (e.place, 'failed', 'BW008', format(
        'billing.%s raised %s: %s', name, sqlstate, left(sqlerrm, 1000)
      ))::billing.answer
      when stage = 'read' then (e.place, 'failed', 'BW009', 'jsonb cannot hold the event: ' || sqlerrm)::billing.answer
      else (e.place, 'failed', sqlstate, sqlerrm)::billing.answer
    end;
  end;
  -- Of the session, which a rollback does not release.
  perform pg_advisory_unlock_all();
  if (select count(*) from pg_prepared_statements where not from_sql) < prepared then
    -- A function that the handler calls ran deallocate. Without what PostgREST has prepared, nobody can use the
    -- connection, not even end this transaction, and it would fail other events for half an hour. So end it.
    perform set_config('exit_on_error', 'on', true);
    raise exception 'billing.% has lost the prepared statements of its connection', name;
  end if;
  return query select answer.*, billing.has_request();
end;
$$;

-- For the console. Returns what an event would come to, and undoes it. It waits for locks as a delivery does.
create or replace function public.billing_try_event(event jsonb)
returns table (outcome text, error_code text, error text)
language plpgsql volatile set search_path = ''
-- As for a handler.
set statement_timeout = '2500ms'
as $$
declare
  trial constant jsonb := event || '{"place": 1, "is_trial": true}';
begin
  begin
    if event ? 'payload' then
      select a.outcome, a.error_code, a.error into outcome, error_code, error
      from public.billing_apply_handled_event(trial) as a;
    else
      select a.outcome, a.error_code, a.error into outcome, error_code, error
      from public.billing_apply_events(jsonb_build_array(trial)) as a;
    end if;
    raise exception using errcode = 'BW000';
  exception when sqlstate 'BW000' then
    return next;
  end;
end;
$$;
