/*
 * Files a verified event that could not be processed. A call of its own,
 * because what applied the event was rolled back.
 *
 * The body comes as text, or as base64 where it is not text, and becomes jsonb
 * here: a copy parsed and written again on the way would turn 1e400 into null
 * and round large integers. What jsonb refuses (\u0000, a lone surrogate,
 * nesting beyond the stack) is kept as a JSON string of the text; so is an event
 * with a number that jsonb would write out with thousands of digits.
 *
 * The caller may have lost the answer to a call that did commit, or a twin may
 * be applying the event right now. So this takes the event's place in the
 * ledger while it writes: an event that is applied already is not filed, and
 * one that is applied later finds the row and resolves it. The answer false lets
 * the caller acknowledge the delivery as a duplicate: the event was applied, if
 * perhaps in the shape of another API version that could be read.
 *
 * While it has that place, deliveries of the event wait, and others with them.
 * So it does not wait for long for a row that somebody has locked.
 */
create function public.record_failed_event(
  p_provider text,
  p_event_id text,
  p_body text,
  p_body_encoding text,
  p_error_code text,
  p_error text,
  p_type text default null
)
returns boolean
language plpgsql
volatile
set search_path = ''
set lock_timeout = '500ms'
as $$
declare
  body_payload jsonb;
  body_encoding text := 'json';
begin
  insert into public.processed_events (provider, event_id, type)
  values (p_provider, p_event_id, coalesce(p_type, ''))
  on conflict do nothing;
  if not found then
    return false;
  end if;

  if p_body_encoding = 'base64' then
    body_payload := to_jsonb(p_body);
    body_encoding := 'base64';
  else
    begin
      body_payload := p_body::jsonb;
      if public.has_long_number(body_payload) then
        body_payload := to_jsonb(p_body);
        body_encoding := 'text';
      end if;
    exception when others then
      body_payload := to_jsonb(p_body);
      body_encoding := 'text';
    end;
  end if;

  insert into public.failed_events as f (
    provider, event_id, type, payload, payload_encoding, error_code, error
  )
  values (
    p_provider, p_event_id, p_type, body_payload, body_encoding, p_error_code, p_error
  )
  on conflict (provider, event_id) do update set
    -- What somebody has repaired stays; the provider sends the old body again.
    type = case when f.original_payload is null then excluded.type else f.type end,
    payload = case when f.original_payload is null then excluded.payload else f.payload end,
    payload_encoding = case
      when f.original_payload is null then excluded.payload_encoding else f.payload_encoding
    end,
    -- So does the error of a repaired row: rows are retried by it.
    error_code = case
      when excluded.error_code = 'repair_pending' then f.error_code else excluded.error_code
    end,
    error = case when excluded.error_code = 'repair_pending' then f.error else excluded.error end,
    attempts = f.attempts + 1,
    last_failed_at = now(),
    resolved_at = null,
    resolution = null,
    resolution_note = null,
    resolved_by = null;

  delete from public.processed_events p
  where p.provider = p_provider and p.event_id = p_event_id;
  return true;
end;
$$;

revoke all on function public.record_failed_event(text, text, text, text, text, text, text)
  from public, anon, authenticated, service_role;
grant execute on function public.record_failed_event(text, text, text, text, text, text, text)
  to service_role;

comment on function public.record_failed_event(text, text, text, text, text, text, text) is
  'Files a failed event, or counts one more attempt and reopens it. p_body_encoding: text or base64. Answers false, and files nothing, where the event has been applied meanwhile.';
