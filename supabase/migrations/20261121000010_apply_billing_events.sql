/*
 * The call on the wire: an array of verified, validated events in, an outcome
 * for each of them out, all in one transaction.
 *
 * Locks are always taken in one order, whoever calls with whatever array:
 *   1. the ledger, by (provider, event id): a concurrent twin waits here
 *   2. the subscriptions, by the hash of their ids; advisory locks, because
 *      a subscription that is about to be created has no row to lock yet
 *   3. rows of subscriptions, notifications and failed_events, each of which
 *      belongs to a lock that is held by then; a duplicate holds none, and has
 *      no open row in failed_events (record_failed_event sees to that)
 * Claiming and locking event by event instead deadlocks against a twin array.
 *
 * Each event is applied in its own subtransaction: one that fails takes its
 * claim back, so that a retry is not mistaken for a duplicate, and leaves the
 * others alone; so does one whose subscription somebody else has locked for
 * longer than the lock timeout. A failure that concerns the whole call (a
 * statement timeout, a deadlock, no more memory) is raised instead.
 *
 * Every statement below finds its rows by their keys: a plan that was cached
 * while a table was empty must not scan it when it has grown.
 */
create function public.apply_billing_events(events jsonb)
returns table (place integer, outcome text, error_code text, error text)
language plpgsql
volatile
set search_path = ''
set lock_timeout = '1s'
as $$
#variable_conflict use_column
declare
  claimed text[];
  failures jsonb := '{}'::jsonb;
  event record;
begin
  with claims as (
    insert into public.processed_events (provider, event_id, type)
    select distinct on (e.provider, e.event_id) e.provider, e.event_id, e.type
    from jsonb_to_recordset(events) as e (provider text, event_id text, type text)
    order by e.provider, e.event_id
    on conflict do nothing
    returning provider || '/' || event_id as claim
  )
  select coalesce(array_agg(claim), '{}') into claimed from claims;

  perform pg_advisory_xact_lock(locks.key)
  from (
    select distinct hashtextextended(e.subscription_id, 0) as key
    from jsonb_to_recordset(events) as e (provider text, event_id text, subscription_id text)
    where e.provider || '/' || e.event_id = any (claimed)
    order by key
  ) as locks;

  for event in
    select
      e.*,
      e.provider || '/' || e.event_id as claim,
      row_number() over (partition by e.provider, e.event_id order by e.place) > 1 as is_twin
    from rows from (
      jsonb_to_recordset(events) as (
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
        invoice_id text
      )
    ) with ordinality as e (
      provider, event_id, type, created, subscription_id, account_id, status,
      plan_id, current_period_end, previous, invoice_id, place
    )
    order by
      is_twin,
      e.subscription_id,
      -- Nothing can be applied before the creation; else what has no time is last.
      e.created is null and e.type = 'customer.subscription.created' desc,
      e.created nulls last,
      case
        when e.created is null then 0
        when e.type = 'customer.subscription.created' then 1
        when e.type = 'customer.subscription.deleted' then 3
        else 2
      end,
      e.place
  loop
    place := event.place;
    outcome := 'duplicate';
    error_code := null;
    error := null;

    if event.is_twin and failures ? event.claim then
      outcome := 'failed';
      error_code := failures -> event.claim ->> 'code';
      error := failures -> event.claim ->> 'message';
    elsif event.claim = any (claimed) and not event.is_twin then
      begin
        outcome := case event.type
          when 'customer.subscription.created' then public.apply_subscription_created(
            event.provider, event.created, event.subscription_id,
            event.account_id, event.plan_id, event.current_period_end
          )
          when 'customer.subscription.updated' then public.apply_subscription_updated(
            event.provider, event.created, event.subscription_id,
            event.status, event.plan_id, event.current_period_end, event.previous
          )
          when 'customer.subscription.deleted' then public.apply_subscription_deleted(
            event.provider, event.created, event.subscription_id
          )
          when 'invoice.payment_failed' then public.apply_invoice_payment_failed(
            event.provider, event.event_id, event.subscription_id, event.invoice_id
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
      exception when others then
        if left(sqlstate, 2) in ('08', '40', '53', '57', '58') then
          raise;
        end if;
        outcome := 'failed';
        error_code := sqlstate;
        error := sqlerrm;
        failures := failures
          || jsonb_build_object(event.claim, jsonb_build_object('code', sqlstate, 'message', sqlerrm));
        delete from public.processed_events p
        where p.provider = event.provider and p.event_id = event.event_id;
      end;
    end if;

    if outcome <> 'failed' then
      update public.failed_events f set
        resolved_at = now(),
        resolution = outcome,
        retry_requested_at = null
      where f.provider = event.provider and f.event_id = event.event_id and f.resolved_at is null;
    end if;
    return next;
  end loop;
end;
$$;

revoke all on function public.apply_billing_events(jsonb)
  from public, anon, authenticated, service_role;
grant execute on function public.apply_billing_events(jsonb) to service_role;

comment on function public.apply_billing_events(jsonb) is
  'Applies an array of events exactly once each. A row out for each event in: its place (from 1), outcome applied, duplicate, stale or failed, and for failed the SQLSTATE and message.';
