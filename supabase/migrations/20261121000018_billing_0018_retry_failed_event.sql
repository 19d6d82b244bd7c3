/*
 * Requests a retry. The worker retries the event at its next run, through the
 * code that handles deliveries. If schedule_billing_worker was run, the worker is
 * woken at once. The row then shows the outcome.
 */
create function public.retry_failed_event(event_id text, of_provider text default null)
returns text
language plpgsql
volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  named_provider text;
  asked integer;
begin
  named_provider := public.provider_of_failed_event(event_id => retry_failed_event.event_id, of_provider => of_provider);
  update public.failed_events f set retry_requested_at = coalesce(f.retry_requested_at, now())
  where f.provider = named_provider
    and f.event_id = retry_failed_event.event_id
    and f.resolved_at is null and f.payload is not null;
  get diagnostics asked = row_count;

  if asked = 0 then
    perform 1 from public.failed_events f
    where f.provider = named_provider and f.event_id = retry_failed_event.event_id
      and f.resolved_at is not null;
    if found then
      return 'It is already resolved: nothing to retry.';
    end if;
    raise exception 'Cannot retry %: its payload was pruned.', retry_failed_event.event_id
      using hint = 'Have the provider send the event again.';
  end if;
  return public.retry_request_answer(asked);
end;
$$;

/*
 * Requests a retry of all open failures, or of those that match the arguments.
 * The worker retries them in the order in which the events occurred.
 *
 * It locks many rows, so it must not wait for a locked one: the transaction that
 * holds the lock may wait for one of these rows (a deadlock), and deliveries of
 * these events would wait as well. It reports how many rows are locked.
 */
create function public.retry_failed_events(
  of_type text default null,
  of_error_code text default null,
  failed_since timestamptz default null,
  failed_until timestamptz default null
)
returns text
language plpgsql
volatile
set search_path = ''
as $$
declare
  asked integer;
  locked integer;
begin
  with unlocked as materialized (
    select f.provider, f.event_id
    from public.failed_events f
    where f.resolved_at is null
      and f.payload is not null
      and f.retry_requested_at is null
      and (of_type is null or f.type = of_type)
      and (of_error_code is null or f.error_code = of_error_code)
      and (failed_since is null or f.last_failed_at >= failed_since)
      and (failed_until is null or f.last_failed_at < failed_until)
    for update skip locked
  )
  update public.failed_events t set retry_requested_at = now()
  from unlocked u
  where t.provider = u.provider and t.event_id = u.event_id;

  select count(f.retry_requested_at), count(*) - count(f.retry_requested_at) into asked, locked
  from public.failed_events f
  where f.resolved_at is null
    and f.payload is not null
    and (of_type is null or f.type = of_type)
    and (of_error_code is null or f.error_code = of_error_code)
    and (failed_since is null or f.last_failed_at >= failed_since)
    and (failed_until is null or f.last_failed_at < failed_until);

  if locked > 0 then
    return format('Somebody else has locked %s of them: run this again. ', locked)
      || public.retry_request_answer(asked);
  end if;
  if asked = 0 then
    return 'No open failure matches: nothing to retry.';
  end if;
  return public.retry_request_answer(asked);
end;
$$;

/*
 * Finds the provider of a failed event. Both providers may have an event with
 * the same id; then the caller must name one.
 */
create function public.provider_of_failed_event(event_id text, of_provider text)
returns text
language plpgsql
volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  providers text[];
begin
  -- Open failures, or resolved ones if none is open.
  select array_agg(f.provider order by f.provider) into providers
  from public.failed_events f
  where f.event_id = provider_of_failed_event.event_id
    and (of_provider is null or f.provider = of_provider)
  group by f.resolved_at is null
  order by f.resolved_at is null desc
  limit 1;

  if providers is null then
    raise exception 'No failed event has the id %.', provider_of_failed_event.event_id
        || coalesce(' (provider ' || of_provider || ')', '')
      using hint = 'select provider, event_id, error from public.open_failures;';
  end if;
  if cardinality(providers) > 1 then
    raise exception 'Providers % both have a failed event with the id %: add of_provider.',
        array_to_string(providers, ' and '), provider_of_failed_event.event_id
      using hint = format('Add: of_provider => %L', providers[1]);
  end if;
  return providers[1];
end;
$$;

create function public.retry_request_answer(asked integer)
returns text
language plpgsql
volatile
set search_path = ''
as $$
begin
  return format('Retry requested: %s. ', asked)
    || case
      when public.wake_billing_worker() then 'The worker is on its way.'
      else 'The worker retries it at its next run.'
    end
    || ' See: select event_id, error, attempts, resolved_at from public.failed_events order by last_failed_at desc;';
end;
$$;

-- For the SQL editor only, not for the API.
revoke all on function public.retry_failed_event(text, text)
  from public, anon, authenticated, service_role;
revoke all on function public.retry_failed_events(text, text, timestamptz, timestamptz)
  from public, anon, authenticated, service_role;
revoke all on function public.retry_request_answer(integer)
  from public, anon, authenticated, service_role;
revoke all on function public.provider_of_failed_event(text, text)
  from public, anon, authenticated, service_role;

comment on function public.retry_failed_event(text, text) is
  'Run in the SQL editor: requests a retry of an open failure. Raises an error if no failed event has this id, if both providers have one and of_provider is missing, or if the payload was pruned.';
comment on function public.provider_of_failed_event(text, text) is
  'Returns the provider of the failed event with this id. Raises an error if there is none, or if both providers have one and of_provider is missing.';
comment on function public.retry_failed_events(text, text, timestamptz, timestamptz) is
  'Run in the SQL editor: requests a retry of all open failures, or of those with a type, an error code or a time of failure, in the order in which the events occurred.';
comment on function public.retry_request_answer(integer) is
  'Wakes the worker after a retry was requested. Returns what happens next.';
