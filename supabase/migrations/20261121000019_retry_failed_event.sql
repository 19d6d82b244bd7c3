/*
 * Asks for a retry. The worker does it, through the code that handles
 * deliveries, at its next turn; where schedule_billing_worker was run it is
 * woken at once. The outcome is on the row.
 */
create function public.retry_failed_event(event_id text)
returns text
language plpgsql
volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  asked integer;
begin
  update public.failed_events f set retry_requested_at = coalesce(f.retry_requested_at, now())
  where f.event_id = retry_failed_event.event_id
    and f.resolved_at is null and f.payload is not null;
  get diagnostics asked = row_count;

  if asked = 0 then
    perform 1 from public.failed_events f
    where f.event_id = retry_failed_event.event_id and f.resolved_at is not null;
    if found then
      return 'It is resolved already: nothing to retry.';
    end if;
    perform 1 from public.failed_events f where f.event_id = retry_failed_event.event_id;
    if found then
      raise exception 'The payload of % is gone: nothing to retry.', retry_failed_event.event_id
        using hint = 'Have the provider send the event again.';
    end if;
    raise exception 'No failed event has the id %.', retry_failed_event.event_id
      using hint = 'select event_id, error from public.open_failures;';
  end if;
  return public.retry_request_answer(asked);
end;
$$;

/*
 * The same for many, all that is open unless narrowed down. The worker takes
 * them in the order in which the events occurred.
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
begin
  update public.failed_events f set retry_requested_at = coalesce(f.retry_requested_at, now())
  where f.resolved_at is null
    and f.payload is not null
    and (of_type is null or f.type = of_type)
    and (of_error_code is null or f.error_code = of_error_code)
    and (failed_since is null or f.last_failed_at >= failed_since)
    and (failed_until is null or f.last_failed_at < failed_until);
  get diagnostics asked = row_count;
  if asked = 0 then
    return 'No open failure fits: nothing to retry.';
  end if;
  return public.retry_request_answer(asked);
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
revoke all on function public.retry_failed_event(text)
  from public, anon, authenticated, service_role;
revoke all on function public.retry_failed_events(text, text, timestamptz, timestamptz)
  from public, anon, authenticated, service_role;
revoke all on function public.retry_request_answer(integer)
  from public, anon, authenticated, service_role;

comment on function public.retry_failed_event(text) is
  'Run in the SQL editor: has the worker try an open failure again. Raises an error for an id that never failed, and where the payload is gone.';
comment on function public.retry_failed_events(text, text, timestamptz, timestamptz) is
  'Run in the SQL editor: has the worker try all open failures again, or those of a type, an error code or a time, in order of occurrence.';
comment on function public.retry_request_answer(integer) is
  'Wakes the worker after a retry was requested, and says what happens next.';
