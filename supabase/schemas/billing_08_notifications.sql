-- Notifications to accounts. The table is an outbox: a row is written with the effect of its event,
-- and a run of the worker delivers it.

create table billing.notifications (
  -- The same for every attempt, also after a restored backup.
  id uuid generated always as (
    md5(provider || '/' || event_id || '/' || kind)::uuid
  ) stored primary key,
  provider text collate "C" not null,
  event_id text collate "C" not null,
  kind text not null default 'payment_failed' check (
    kind in (
      'payment_failed',
      'action_required',
      'trial_ending',
      'recovered',
      'ended'
    )
  ),
  status text not null default 'pending' check (
    status in (
      'pending',
      'sent',
      'dead',
      'undeliverable',
      'withdrawn'
    )
  ),

  -- What it says.
  account_id text collate "C" not null,
  subscription_id text collate "C" not null,
  invoice_id text collate "C",
  hosted_invoice_url text,
  -- In the smallest unit of the currency, such as cents.
  amount_due bigint,
  currency text,
  -- How often the provider has tried to collect the payment.
  attempt_count integer,
  -- When the provider tries again. Null if it does not; if attempt_count is null as well, the event
  -- did not say.
  next_payment_attempt timestamptz,
  trial_end timestamptz,
  -- Of kind ended: whether the account had access by another subscription at the first attempt.
  still_has_access boolean,
  occurred_at timestamptz not null default now(),
  created_at timestamptz not null default now(),

  -- How far its delivery got.
  attempts integer not null default 0 check (attempts >= 0),
  next_attempt_at timestamptz not null default now(),
  last_error text,
  sent_at timestamptz,

  unique (provider, event_id)
);

create index notifications_due on billing.notifications (next_attempt_at)
where
  status = 'pending';

create index notifications_invoice on billing.notifications (invoice_id)
where
  invoice_id is not null;

create index notifications_given_up on billing.notifications (created_at)
where
  status in ('dead', 'undeliverable');

create index notifications_settled on billing.notifications (created_at)
where
  status <> 'pending';

comment on table billing.notifications is
  'The outbox: one per event that NOTIFY asks for.';
comment on column billing.notifications.status is
  'dead: given up. withdrawn: no longer true. undeliverable: no address.';

-- Writes the notifications of events that were applied. With once_per_invoice, the first event of
-- an invoice creates the only one of its kind; one that was withdrawn told the account nothing, and
-- does not count. Two events of an invoice cannot both find none: it belongs to one subscription,
-- whose lock the caller holds.
create function billing.notify_accounts(steps billing.step[])
returns void
language plpgsql volatile
set search_path = ''
as $$
begin
  insert into billing.notifications (
    provider, event_id, kind, account_id, subscription_id, occurred_at, invoice_id,
    hosted_invoice_url, amount_due, currency, attempt_count, next_payment_attempt, trial_end
  )
  select distinct on (e.provider, p.kind, coalesce(o.only_of, e.event_id))
    e.provider,
    e.event_id,
    p.kind,
    s.account_id,
    e.subscription_id,
    coalesce(e.occurred_at, e.handled_at),
    p.invoice_id,
    p.hosted_invoice_url,
    p.amount_due,
    p.currency,
    p.attempt_count,
    p.next_payment_attempt,
    p.trial_end
  from unnest(steps) as s,
    unnest(array[s.event]) as e,
    jsonb_populate_record(
      null::billing.notifications,
      '{"kind": "payment_failed"}' || s.payment
    ) as p,
    lateral (
      select case when s.payment @> '{"once_per_invoice": true}' then p.invoice_id end
    ) as o (only_of)
  where s.payment is not null
    and s.outcome = 'applied'
    -- What a sweep has found late is no news, unless a subscription has ended.
    and (
      p.kind = 'ended'
      or coalesce(e.occurred_at, e.handled_at) > now() - interval '3 days'
      or coalesce(
        e.is_missed,
        (
          select f.is_missed
          from billing.failed_events f
          where (f.event_id, f.provider) = (e.event_id, e.provider)
        )
      ) is not true
    )
    and (
      o.only_of is null
      or (
        select true
        from billing.notifications n
        where n.invoice_id = o.only_of
          -- "is true": the planner's policy (04).
          and (n.provider = e.provider and n.kind = p.kind and n.status <> 'withdrawn') is true
        limit 1
      ) is null
    )
  order by e.provider, p.kind, coalesce(o.only_of, e.event_id), e.place
  -- The row may outlive the event's row in the ledger, which is pruned by age.
  on conflict (provider, event_id) do nothing;
end;
$$;

-- Returns the waits between attempts to deliver a notification, as in the Standard Webhooks
-- specification. The first attempt is made at once, so there is one more than there are waits.
-- After the last one, about three days later, it is dead.
create function billing.notification_waits()
returns interval[]
language sql immutable
return '{5 s,5 min,30 min,2 h,5 h,10 h,14 h,20 h,24 h}'::interval[];

-- Claims up to batch_size due notifications for a run.
--
-- The attempt is counted here, before sending, so that a notification that crashes every worker is
-- given up in the end. One that is not settled is due again when a lease (10) would have ended. One
-- that is no longer true is withdrawn; but the end of a trial that is newer than the record waits a
-- minute, because the update that set it may still come.
--
-- So that a call stays short, it checks at most a thousand. If it hands out none of them, it asks
-- for the queue itself, so the run goes on.
create function public.billing_claim_notifications(
  lease_id uuid,
  batch_size integer,
  destination text
)
returns setof jsonb
language plpgsql volatile
set search_path = ''
set jit = off
set enable_seqscan = off
as $$
declare
  due record;
  notification jsonb;
  claimed integer := 0;
begin
  if not billing.hold_lease('notifications', lease_id, destination) then
    return;
  end if;

  for due in
    select
      n.id,
      c.fault,
      case
        when n.attempts > cardinality(billing.notification_waits()) then 'dead'
        when c.fault is null then 'pending'
        when n.kind = 'trial_ending'
          and n.trial_end > now()
          and billing.time_of(greatest(s.changed_mark, s.canceled_mark)) < n.occurred_at
        then 'pending'
        else 'withdrawn'
      end as status
    from billing.notifications n
    -- With a limit, so that it is no join, whose plan may read all subscriptions.
    left join lateral (
      select * from billing.records r where r.id = n.subscription_id limit 1
    ) as s on true
    cross join lateral (
      select case
        when n.attempts > cardinality(billing.notification_waits()) then
          concat_ws('; ', n.last_error, 'the worker of the last attempt did not report a result')

        when n.kind = 'ended' then case
          when s.status is distinct from 'canceled' then 'The subscription goes on.'
        end

        when n.kind = 'recovered' then case
          when s.status is distinct from 'active' then 'The subscription is not active any more.'
          when n.occurred_at < now() - interval '3 days' then 'It is more than three days ago.'
        end

        when s.status = 'canceled' then 'The subscription has ended.'

        when n.kind = 'trial_ending' then case
          when (s.trial_end > now()) is not true then 'The trial has ended.'
          when s.trial_end is distinct from n.trial_end then 'The trial ends at another time.'
          when s.provider_status is distinct from 'trialing' then 'It is no trial any more.'
        end

        -- payment_failed, action_required
        when s.recovered_as_of > n.occurred_at then 'The subscription is active again.'
        when s.provider_status = 'incomplete_expired' then 'The subscription never began.'
      end
    ) as c (fault)
    where n.status = 'pending' and n.next_attempt_at <= now()
    order by n.next_attempt_at
    limit 1000
    for update of n skip locked
  loop
    update billing.notifications n set
      status = due.status,
      last_error = case when due.status = 'pending' then n.last_error else due.fault end,
      attempts = n.attempts + (due.fault is null)::integer,
      next_attempt_at = now() + interval '60 s',
      -- Each attempt must say the same, so the first decides. The subscription that ended gives no
      -- access.
      still_has_access = case
        when n.kind = 'ended' and due.fault is null and n.attempts = 0 then
          public.billing_has_access(n.account_id)
        else n.still_has_access
      end
    where n.id = due.id
    returning to_jsonb(n) into notification;

    if due.fault is null then
      return next notification;
      claimed := claimed + 1;
      exit when claimed >= batch_size;
    end if;
  end loop;

  if found and claimed = 0 then
    update billing.leases l set is_wanted = true where l.queue = 'notifications';
  end if;
end;
$$;

-- Stores the results of a run's notifications, and returns how many. results: id, result (sent,
-- failed, dead, undeliverable, limited or unsent), error, retry_after_seconds.
--
-- A failed one is due again after the next wait plus up to 10 %, so that those that failed together
-- are not all due at the same time. `limited` and `unsent` do not count as attempts.
create function public.billing_settle_notifications(
  lease_id uuid,
  destination text,
  results jsonb
)
returns integer
language plpgsql volatile
set search_path = ''
as $$
declare
  waits constant interval[] := billing.notification_waits();
  settled integer;
begin
  results := billing.accept_results(lease_id, destination, results);

  update billing.notifications n set
    status = case
      when r.result in ('limited', 'unsent') then 'pending'
      when r.result = 'failed' and n.attempts <= cardinality(waits) then 'pending'
      else replace(r.result, 'failed', 'dead')
    end,
    -- A person may have set it to 0 meanwhile.
    attempts = greatest(n.attempts - (r.result in ('limited', 'unsent'))::integer, 0),
    last_error = case when r.result in ('sent', 'unsent') then n.last_error else r.error end,
    sent_at = case when r.result = 'sent' then now() end,
    next_attempt_at = case r.result
      when 'limited' then (
        select p.paused_until
        from billing.pauses p
        where p.destination = billing_settle_notifications.destination
      )
      when 'unsent' then now()
      else now() + greatest(
        waits[n.attempts] * (1 + random() * 0.1),
        least(coalesce(r.retry_after_seconds, 0), 86400) * interval '1 s'
      )
    end
  from (
    select r.*
    from jsonb_to_recordset(results)
      as r (id uuid, result text, error text, retry_after_seconds numeric)
    join billing.notifications o using (id)
    where o.status = 'pending'
    -- A locked one is not waited for, because the others would be sent again.
    for update of o skip locked
  ) as r
  where n.id = r.id;
  get diagnostics settled = row_count;
  return settled;
end;
$$;

-- Locks the queue, and returns the results of a run, to be stored; none if another run has claimed
-- since. Pauses the destination if a result is `limited` (429). For alerts, too.
create function billing.accept_results(lease_id uuid, destination text, results jsonb)
returns jsonb
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
begin
  perform
  from billing.leases l
  where l.queue = 'notifications' and l.lease_id = accept_results.lease_id
  for update;
  if not found then
    return '[]';
  end if;

  insert into billing.pauses as p (destination, paused_until)
  select
    accept_results.destination,
    clock_timestamp()
      + least(greatest(max(coalesce(r.retry_after_seconds, 60)), 1), 86400) * interval '1 s'
  -- Numeric, because a date may be thousands of years away.
  from jsonb_to_recordset(results) as r (result text, retry_after_seconds numeric)
  where r.result = 'limited'
  having count(*) > 0
  on conflict (destination) do update set
    paused_until = greatest(p.paused_until, excluded.paused_until);
  return results;
end;
$$;
