/*
 * What an array can have applied in one statement is applied first
 * (apply_updates_together), and the other events one by one, each in its own
 * subtransaction, as before. Most events of a busy receiver are updates, each of
 * another subscription. The locks and their order stay the same. Only the events
 * of the loop are read with all their fields.
 *
 * lock_failed_event says why an open failure is asked for by resolution.
 *
 * A creation without an account asks account_of_customer after these updates, not
 * in the order of the subscriptions' ids. If one of them gives a subscription
 * another customer, that makes a difference.
 */
create or replace function public.apply_billing_events(events jsonb)
returns table (place integer, outcome text, error_code text, error text)
language plpgsql
volatile
set search_path = ''
set lock_timeout = '1s'
as $$
#variable_conflict use_column
declare
  claimed text[];
  failures jsonb;
  locked text[] := '{}';
  applied text[] := '{}';
  started constant timestamptz := clock_timestamp();
  is_filed boolean;
  event record;
begin
  select c.claimed, c.failures into claimed, failures
  from public.claim_billing_events(events) as c;

  begin
    perform pg_advisory_xact_lock(locks.key)
    from (
      select distinct hashtextextended(e.subscription_id, 0) as key
      from jsonb_to_recordset(events) as e (provider text, event_id text, subscription_id text)
      where e.provider || '/' || e.event_id = any (claimed)
      order by key
    ) as locks;
  exception when lock_not_available then
    select coalesce(array_agg(s.subscription_id), '{}') into locked
    from (
      select distinct e.subscription_id
      from jsonb_to_recordset(events) as e (provider text, event_id text, subscription_id text)
      where e.provider || '/' || e.event_id = any (claimed)
    ) as s
    where not pg_try_advisory_xact_lock(hashtextextended(s.subscription_id, 0));
  end;

  -- It pays from three on: two are mostly of the same subscription.
  if jsonb_array_length(events) >= 3 then
    applied := public.apply_updates_together(events, claimed, locked);
    return query
    select listed.place::integer, 'applied', null::text, null::text
    from jsonb_array_elements(events) with ordinality as listed (event, place)
    where (listed.event ->> 'provider') || '/' || (listed.event ->> 'event_id') = any (applied);
    if cardinality(applied) = jsonb_array_length(events) then
      return;
    end if;
  end if;

  for event in
    select
      listed.place,
      e.*,
      e.provider || '/' || e.event_id as claim,
      row_number() over (partition by e.provider, e.event_id order by listed.place) > 1 as is_twin
    from jsonb_array_elements(events) with ordinality as listed (event, place),
      jsonb_to_record(listed.event) as e (
        provider text,
        event_id text,
        type text,
        created timestamptz,
        subscription_id text,
        account_id text,
        status text,
        plan_id text,
        current_period_end timestamptz,
        previous jsonb,
        invoice_id text,
        retry jsonb,
        provider_status text,
        customer_id text,
        quantity integer,
        cancel_at timestamptz,
        trial_end timestamptz,
        paused text,
        livemode boolean,
        hosted_invoice_url text,
        amount_due bigint,
        currency text,
        attempt_count integer,
        next_payment_attempt timestamptz,
        once_per_invoice boolean
      )
    where (listed.event ->> 'provider') || '/' || (listed.event ->> 'event_id') <> all (applied)
    order by
      is_twin,
      e.subscription_id,
      -- The creation comes first; other events without a time come last.
      e.created is null and e.type = 'customer.subscription.created' desc,
      e.created nulls last,
      case
        when e.created is null then 0
        when e.type = 'customer.subscription.created' then 1
        when e.type = 'customer.subscription.deleted' then 3
        else 2
      end,
      listed.place
  loop
    place := event.place;
    outcome := 'duplicate';
    error_code := null;
    error := null;

    if failures ? event.claim then
      outcome := 'failed';
      error_code := failures -> event.claim ->> 'code';
      error := failures -> event.claim ->> 'message';
    elsif event.claim = any (claimed) and not event.is_twin then
      if clock_timestamp() > started + interval '50 ms' then
        perform set_config(
          'lock_timeout',
          greatest(20, 1000 - 1000 * extract(epoch from clock_timestamp() - started))::integer::text,
          true
        );
      end if;
      begin
        is_filed := null;
        if event.subscription_id = any (locked) then
          raise exception 'Subscription % is locked by another transaction.', event.subscription_id
            using errcode = '55P03';
        end if;
        is_filed := public.lock_failed_event(event.provider, event.event_id, event.retry);
        outcome := case event.type
          when 'customer.subscription.created' then public.apply_subscription_created(
            event.provider, event.created, event.subscription_id,
            event.account_id, event.plan_id, event.current_period_end,
            event.provider_status, event.customer_id, event.quantity,
            event.cancel_at, event.trial_end, event.paused, event.livemode
          )
          when 'customer.subscription.updated' then public.apply_subscription_updated(
            event.provider, event.created, event.subscription_id,
            event.status, event.plan_id, event.current_period_end, event.previous,
            event.provider_status, event.customer_id, event.quantity,
            event.cancel_at, event.trial_end, event.paused, event.livemode
          )
          when 'customer.subscription.deleted' then public.apply_subscription_deleted(
            event.provider, event.created, event.subscription_id
          )
          when 'invoice.payment_failed' then public.apply_invoice_payment_failed(
            event.provider, event.event_id, event.subscription_id, event.invoice_id,
            event.hosted_invoice_url, event.amount_due, event.currency,
            event.attempt_count, event.next_payment_attempt, event.once_per_invoice
          )
        end;
        if outcome is null then
          raise exception 'No function applies events of type %.', event.type
            using errcode = 'BW003';
        end if;
        if outcome = 'stale' then
          update public.processed_events p set outcome = 'stale'
          where p.provider = event.provider and p.event_id = event.event_id;
        end if;
        if is_filed then
          update public.failed_events f set
            resolved_at = now(),
            resolution = outcome,
            retry_requested_at = null,
            retry_leased_until = null,
            retry_lease_id = null
          where f.provider = event.provider
            and f.event_id in (event.event_id, event.retry ->> 'event_id')
            and f.resolution is null;
        end if;
      exception when others then
        if left(sqlstate, 2) in ('08', '40', '53', '57', '58') then
          raise;
        end if;
        -- A lock on its row in failed_events does not concern the subscription.
        if sqlstate = '55P03' and is_filed is not null then
          locked := locked || event.subscription_id;
        end if;
        outcome := 'failed';
        error_code := sqlstate;
        error := sqlerrm;
        if sqlstate = 'BW001' and event.customer_id is not null then
          begin
            if public.account_of_customer(event.provider, event.customer_id) is not null then
              error_code := 'BW006';
            end if;
          exception when others then
            -- Nobody knows whether the customer is known.
            error_code := 'BW006';
          end;
        end if;
        failures := failures
          || jsonb_build_object(event.claim, jsonb_build_object('code', error_code, 'message', error));
        delete from public.processed_events p
        where p.provider = event.provider and p.event_id = event.event_id;
      end;
    elsif not event.is_twin then
      -- By key: at a row that changed meanwhile, ctid finds nothing.
      with unlocked as materialized (
        select o.event_id
        from public.failed_events o
        where o.provider = event.provider and o.event_id = event.event_id and o.resolution is null
        for update skip locked
      )
      update public.failed_events f set
        resolved_at = now(),
        resolution = outcome,
        retry_requested_at = null,
        retry_leased_until = null,
        retry_lease_id = null
      from unlocked u
      where f.provider = event.provider and f.event_id = event.event_id
        and f.event_id = u.event_id;
    end if;
    return next;
  end loop;
end;
$$;
