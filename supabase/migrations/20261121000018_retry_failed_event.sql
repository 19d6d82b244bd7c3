/*
 * Asks for a retry. The worker does it, through the code that handles
 * deliveries, at its next turn; where schedule_billing_worker was run it is
 * woken at once. The outcome is on the row.
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
      return 'It is resolved already: nothing to retry.';
    end if;
    raise exception 'The payload of % is gone: nothing to retry.', retry_failed_event.event_id
      using hint = 'Have the provider send the event again.';
  end if;
  return public.retry_request_answer(asked);
end;
$$;

/*
 * The same for many, all that is open unless narrowed down. The worker takes
 * them in the order in which the events occurred.
 *
 * It has many rows at once, so it must not wait for one: whoever has that may
 * wait for another (a deadlock), and so do the deliveries of all the others. What
 * is locked is counted in the answer.
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
    return 'No open failure fits: nothing to retry.';
  end if;
  return public.retry_request_answer(asked);
end;
$$;

/*
 * Both providers may have an event of one id, and a person means one of them.
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
  -- Open ones, or the resolved ones where none is open.
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
    raise exception 'Providers % both have a failed event with the id %: name one.',
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
      else 'The worker takes it at its next turn.'
    end
    || ' See: select event_id, error, attempts, resolved_at from public.failed_events order by last_failed_at desc;';
end;
$$;

-- For the SQL editor. The API has no use for them.
revoke all on function public.retry_failed_event(text, text)
  from public, anon, authenticated, service_role;
revoke all on function public.retry_failed_events(text, text, timestamptz, timestamptz)
  from public, anon, authenticated, service_role;
revoke all on function public.retry_request_answer(integer)
  from public, anon, authenticated, service_role;
revoke all on function public.provider_of_failed_event(text, text)
  from public, anon, authenticated, service_role;

comment on function public.retry_failed_event(text, text) is
  'Run in the SQL editor: has the worker try an open failure again. Raises an error for an id that never failed, for one that both providers have unless of_provider is given, and if the payload is gone.';
comment on function public.provider_of_failed_event(text, text) is
  'The provider whose failure of this id is meant: the one that has it, or of_provider. Raises an error for an id that never failed, or that both have.';
comment on function public.retry_failed_events(text, text, timestamptz, timestamptz) is
  'Run in the SQL editor: has the worker try all open failures again, or those of a type, an error code or a time, in order of occurrence.';
comment on function public.retry_request_answer(integer) is
  'Wakes the worker after a retry was requested, and says what happens next.';
