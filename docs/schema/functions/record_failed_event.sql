-- Written by "deno task types". Defined in:
-- supabase/migrations/20261121000015_billing_0015_record_failed_event.sql

CREATE OR REPLACE FUNCTION public.record_failed_event(p_provider text, p_event_id text, p_body text, p_body_encoding text, p_error_code text, p_error text, p_type text DEFAULT NULL::text)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO ''
 SET lock_timeout TO '500ms'
AS $function$
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
$function$;

comment on function public.record_failed_event(text,text,text,text,text,text,text) is 'Stores a failed event, or counts one more attempt and reopens it. p_body_encoding: text or base64. Returns false and stores nothing if the event has been applied meanwhile.';

revoke all on function public.record_failed_event(text,text,text,text,text,text,text) from public;

grant EXECUTE on function public.record_failed_event(text,text,text,text,text,text,text) to service_role;
