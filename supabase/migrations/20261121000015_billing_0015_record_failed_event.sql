/*
 * Stores a verified event that could not be processed. It is a separate call,
 * because the transaction that should have applied the event was rolled back.
 *
 * The body arrives as text, or as base64 if it is not text, and is converted to
 * jsonb here. Parsing and serializing it before would turn 1e400 into null and
 * round large integers. A body that jsonb refuses (\u0000, a lone surrogate,
 * nesting beyond the stack) is stored as a JSON string of the text, and so is one
 * with a number that jsonb would expand to thousands of digits.
 *
 * The event may have been applied after all: the caller may have lost the answer
 * to a call that committed, or a concurrent delivery may be applying the event
 * right now. So this holds the event's row in the ledger while it writes. An
 * event that is already applied is not stored, and one that is applied later
 * finds the row and resolves it. If this returns false, the caller acknowledges
 * the delivery as a duplicate: the event was applied, perhaps from a delivery in
 * the shape of another API version.
 *
 * Meanwhile, other deliveries of the event wait, and the events in the same
 * calls with them. So this waits only briefly for a locked row.
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
    -- A repair stays; the provider sends the old body again.
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
  'Stores a failed event, or counts one more attempt and reopens it. p_body_encoding: text or base64. Returns false and stores nothing if the event has been applied meanwhile.';
