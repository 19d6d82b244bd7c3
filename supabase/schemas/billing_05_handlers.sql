-- Handlers: functions of the app that run with an event.

create function billing.handler_name(type text)
returns text
language sql immutable
return 'on_' || regexp_replace(type, '[^a-z0-9]', '_', 'g');

-- Returns the app's handlers that can be called.
create function billing.handlers()
returns text[]
language sql stable
set search_path = ''
return array(
  select p.proname::text
  from pg_catalog.pg_proc p
  where p.pronamespace = 'billing'::regnamespace
    and p.proname like 'on\_%'
    and oidvectortypes(p.proargtypes) = 'text, jsonb'
    and has_function_privilege('service_role', p.oid, 'execute')
  order by p.proname
);

-- Runs the app's handler with the settings that it has in the SQL editor, but for time limits.
-- Nothing that it sets outlives it, as the connection is used again.
create function billing.run_handler(event billing.event, payload jsonb)
returns void
language plpgsql volatile
set search_path = public, extensions, pg_temp
set lock_timeout = '2s'
as $$
declare
  role constant text := current_setting('role');
  -- PostgREST sets it for the session.
  messages constant text := current_setting('client_min_messages');
begin
  execute format('select billing.%I($1, $2)', billing.handler_name(event.type))
  using event.provider, payload;

  -- Checks and cursors that it leaves to the end of the transaction.
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

-- Returns whether a function's source runs deallocate: outside of comments, and of texts unless
-- they are executed.
create function billing.runs_deallocate(source text)
returns boolean
language sql immutable
return source ~* 'deallocate' and regexp_replace(
  source,
  '--[^\r\n]*|/\*(?:[^*]|\*+[^/*])*\*+/'
    || '|\yexecute\s*(?:format\s*)?\(?\s*''\s*(deallocate(?:[^'']|'''')*)'''
    || '|''(?:[^'']|'''')*''',
  ' \1 ',
  'gi'
) ~* (
  '(^|;|\y(begin|then|else|loop)\y)\s*'
    || 'deallocate(\s+(prepare\s+)?(?!end\y)[\w%"]+)?\s*([;,|)]|$)'
);

-- Applies one event, which has the payload as text besides, and runs its handler: both or neither.
-- No SQLSTATE of the handler leaves the database (04).
create function public.billing_apply_handled_event(event jsonb)
returns table (place integer, outcome text, error_code text, error text, retries boolean)
language plpgsql volatile
set search_path = ''
set lock_timeout = '500ms'
-- PostgREST applies it to the whole call.
set statement_timeout = '2500ms'
as $$
declare
  e constant billing.event := jsonb_populate_record(
    null::billing.event,
    event || jsonb_build_object('place', 1, 'handled_at', now())
  );
  name constant text := billing.handler_name(e.type);
  handler constant oid := to_regprocedure(format('billing.%I(text, jsonb)', name));
  prepared constant bigint := (select count(*) from pg_prepared_statements where not from_sql);
  answer billing.answer;
  payload jsonb;
  stage text;
begin
  begin
    answer := (billing.apply(array[e], true))[1];

    if answer.outcome in ('applied', 'stale') then
      if handler is null or not has_function_privilege(handler, 'execute') then
        raise exception using errcode = 'BW007', message = format(case
          when handler is not null
            then '%2$s may not execute it: grant execute on function billing.%1$s to %2$s;'
          when exists (
            select from pg_proc p
            where p.pronamespace = 'billing'::regnamespace and p.proname = name::name
          )
            then 'billing.%1$s has other arguments than (provider text, event jsonb).'
          else 'billing.%1$s is not there: '
            || 'create function billing.%1$s(provider text, event jsonb) returns void.'
        end, name, current_user);
      elsif (select billing.runs_deallocate(p.prosrc) from pg_proc p where p.oid = handler) then
        raise exception using errcode = 'BW008', message = format(
          'billing.%s contains deallocate, which would break a connection that it shares: '
            || 'remove it.',
          name
        );
      end if;

      stage := 'read';
      payload := event ->> 'payload';
      stage := 'run';
      perform billing.run_handler(e, payload);
    end if;

    set constraints all immediate;
  exception when others or query_canceled or assert_failure then
    answer := case
      when stage = 'run' or sqlstate = '57014' then (e.place, 'failed', 'BW008', format(
        'billing.%s raised %s: %s',
        name,
        sqlstate,
        left(sqlerrm, 1000)
      ))::billing.answer
      when stage = 'read' then
        (e.place, 'failed', 'BW009', 'jsonb cannot hold the event: ' || sqlerrm)::billing.answer
      else (e.place, 'failed', sqlstate, sqlerrm)::billing.answer
    end;
  end;

  -- Locks of the session, which a rollback does not release.
  perform pg_advisory_unlock_all();

  if (select count(*) from pg_prepared_statements where not from_sql) < prepared then
    -- End the connection: a function that the handler calls ran deallocate. Without what it has
    -- prepared, PostgREST cannot even end this transaction, and others would fail for half an hour.
    perform set_config('exit_on_error', 'on', true);
    raise exception 'billing.% has lost the prepared statements of its connection', name;
  end if;

  perform billing.tell_version();
  return query select answer.*, billing.has_request();
end;
$$;

-- Rehearses an event for the console: returns the outcome that it would have, and undoes it.
create function public.billing_try_event(event jsonb)
returns table (outcome text, error_code text, error text)
language plpgsql volatile
set search_path = ''
-- As for a handler.
set statement_timeout = '2500ms'
as $$
declare
  answer record;
  rehearsal constant jsonb := event || '{"place": 1, "is_rehearsal": true}';
begin
  begin
    if event ? 'payload' then
      select * into answer from public.billing_apply_handled_event(rehearsal);
    else
      select * into answer from public.billing_apply_events(jsonb_build_array(rehearsal));
    end if;
    raise exception using errcode = 'BW000';
  exception when sqlstate 'BW000' then
    return query select answer.outcome, answer.error_code, answer.error;
  end;
end;
$$;
