/*
 * Applies the updates of an array that nothing stands in the way of, all in one
 * statement: it starts once, prepares the table's checks once, and needs one
 * transaction id instead of one for each event. What it leaves, for whatever
 * reason, apply_billing_events applies one by one; so it may leave anything, and
 * raises nothing that concerns a single event. It leaves
 *   - an update that is not newer than its record (apply_subscription_updated says
 *     what becomes of it), or whose record is missing, locked or the other
 *     provider's
 *   - all events of a subscription, and all copies of an event, if the array has
 *     several
 *   - an event with an open failure, and one from a retry
 *   - everything, if a row is refused, such as by a check of the app
 *   - everything, if subscriptions has a trigger: its waits are limited for each
 *     event
 *
 * An update that is newer than its record is the simple case of the rule in
 * apply_subscription_updated: there is nothing to merge. A field that is added to
 * that rule is added here too, in the statement.
 *
 * The rows are locked before, without waiting. If the statement has to wait after
 * all, such as for a foreign key of the app's, all are left after 20 ms.
 *
 * The plans are kept, because to plan takes as long as to apply ten updates. They
 * must find subscriptions and failures by key, even if they were made while the
 * tables were empty. So no subscription is found by a join alone, and a subquery
 * looks up each failure: with "not exists", all failures were read.
 */
create function public.apply_updates_together(events jsonb, claimed text[], locked text[])
returns text[]
language plpgsql
volatile
set search_path = ''
set lock_timeout = '20ms'
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_variable
declare
  free text[];
  applied text[];
begin
  perform from pg_catalog.pg_trigger t
  where t.tgrelid = 'public.subscriptions'::regclass and not t.tgisinternal;
  if found then
    return '{}';
  end if;

  select array_agg(s.id) into free
  from (
    select s.id
    from public.subscriptions s
    where s.id = any (array(
      select e.subscription_id
      from (
        select
          e.*,
          count(*) over (partition by e.subscription_id) as of_subscription,
          count(*) over (partition by e.provider, e.event_id) as copies
        from jsonb_to_recordset(events) as e (
          provider text, event_id text, type text, subscription_id text, retry jsonb
        )
      ) as e
      where e.of_subscription = 1
        and e.copies = 1
        and e.type = 'customer.subscription.updated'
        and e.retry is null
        and e.provider || '/' || e.event_id = any (claimed)
        and e.subscription_id <> all (locked)
        and (
          select f.resolved_at is null
          from public.failed_events f
          where f.provider = e.provider and f.event_id = e.event_id
        ) is not true
    ))
      -- A record that is at least as new as all of them is not worth a lock.
      and s.changed_as_of < (
        select max(e.created) from jsonb_to_recordset(events) as e (created timestamptz)
      )
    for no key update skip locked
  ) as s;
  if free is null then
    return '{}';
  end if;

  with updated as (
    update public.subscriptions s set
      -- A deletion of the same second or later keeps the status.
      status = case when e.created <= s.canceled_as_of then s.status else e.status end,
      plan_id = e.plan_id,
      current_period_end = e.current_period_end,
      provider_status = e.provider_status,
      customer_id = e.customer_id,
      quantity = e.quantity,
      cancel_at = e.cancel_at,
      trial_end = e.trial_end,
      paused = e.paused,
      livemode = e.livemode,
      past_due_since = case
        when e.status = 'past_due' and (
          e.previous ->> 'status' <> e.status
          or (
            e.previous is null
            and (s.past_due_since is null or s.provider_status is distinct from e.status)
          )
        )
        then greatest(s.past_due_since, e.created)
        else s.past_due_since
      end,
      changed_as_of = e.created,
      changed_by_update = true,
      changed_in_second = coalesce(e.previous, '{}')
    from jsonb_to_recordset(events) as e (
      provider text,
      event_id text,
      created timestamptz,
      subscription_id text,
      status text,
      plan_id text,
      current_period_end timestamptz,
      previous jsonb,
      provider_status text,
      customer_id text,
      quantity integer,
      cancel_at timestamptz,
      trial_end timestamptz,
      paused text,
      livemode boolean
    )
    where s.id = e.subscription_id
      and s.id = any (free)
      and s.provider = e.provider
      and s.changed_as_of < e.created
    returning e.provider || '/' || e.event_id as claim
  )
  select coalesce(array_agg(u.claim), '{}') into applied from updated as u;
  return applied;
exception when others then
  return '{}';
end;
$$;

revoke all on function public.apply_updates_together(jsonb, text[], text[])
  from public, anon, authenticated, service_role;
grant execute on function public.apply_updates_together(jsonb, text[], text[]) to service_role;

comment on function public.apply_updates_together(jsonb, text[], text[]) is
  'Applies the updates of an array that are newer than their records, in one statement, and returns them as provider/event_id. claimed: the events that this call has claimed. locked: subscriptions that another call has. Called by apply_billing_events, which holds the claims and the locks and applies the rest.';
