-- Written by "deno task types". Defined in:
-- supabase/migrations/20261122000022_billing_0049_apply_updates_together.sql

CREATE OR REPLACE FUNCTION public.apply_updates_together(events jsonb, claimed text[], locked text[])
 RETURNS text[]
 LANGUAGE plpgsql
 SET search_path TO ''
 SET lock_timeout TO '20ms'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
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
$function$;

comment on function public.apply_updates_together(jsonb,text[],text[]) is 'Applies the updates of an array that are newer than their records, in one statement, and returns them as provider/event_id. claimed: the events that this call has claimed. locked: subscriptions that another call has. Called by apply_billing_events, which holds the claims and the locks and applies the rest.';

revoke all on function public.apply_updates_together(jsonb,text[],text[]) from public;

grant EXECUTE on function public.apply_updates_together(jsonb,text[],text[]) to service_role;
