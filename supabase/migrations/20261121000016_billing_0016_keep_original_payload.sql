/*
 * Keeps the received payload when somebody repairs it
 * (`update failed_events set payload = ...`). A repair is a change of the payload
 * that does not count an attempt; record_failed_event always counts one.
 *
 * The type is read again, because subscription_id, and so the order of retries,
 * depends on it. A worker that has claimed the row has read the old payload, so
 * the repair ends its lease: lock_failed_event then refuses to apply the old
 * payload, and the requested retry uses the repaired one.
 *
 * A resolved row cannot be repaired: it would look as if the repaired payload
 * had been applied.
 */
create function public.keep_original_payload()
returns trigger
language plpgsql
volatile
set search_path = ''
as $$
begin
  if new.resolved_at is not null then
    raise exception 'Cannot repair %: it is already resolved (%).', new.event_id, new.resolution
      using hint = 'Nothing was changed. To retry an event that was resolved by hand, reopen it first: see docs/runbook.md.';
  end if;
  if public.has_long_number(new.payload) then
    raise exception 'Cannot repair %: the payload has a number of more than 40 digits.', new.event_id
      using hint = 'Nothing was changed. Remove the number, or write it as a string.';
  end if;
  new.original_payload := coalesce(old.original_payload, old.payload);
  if jsonb_typeof(new.payload) = 'object' then
    new.payload_encoding := 'json';
    new.type := new.payload ->> 'type';
  end if;
  new.retry_leased_until := null;
  new.retry_lease_id := null;
  return new;
end;
$$;

revoke all on function public.keep_original_payload() from public, anon, authenticated, service_role;
-- A trigger needs no grant; someone who repairs a row by hand is `postgres`.

create trigger keep_original_payload
before update of payload on public.failed_events
for each row
when (
  old.payload is distinct from new.payload
  and new.payload is not null
  and old.attempts = new.attempts
)
execute function public.keep_original_payload();

comment on function public.keep_original_payload() is
  'Trigger of failed_events: keeps the received payload in original_payload when payload is repaired. Raises an error if the row is resolved.';
