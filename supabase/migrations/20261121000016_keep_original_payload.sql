/*
 * Repairing a payload (`update failed_events set payload = ...`) keeps what was
 * received. A repair is what changes the payload without counting an attempt;
 * record_failed_event always counts one.
 *
 * The type is read anew: subscription_id, and so the order of retries, hangs on
 * it. A worker that has the row tries what it read before the repair, so it
 * loses the row: a retry that was asked for is one of the repaired payload.
 */
create function public.keep_original_payload()
returns trigger
language plpgsql
volatile
set search_path = ''
as $$
begin
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
-- A trigger runs without this right; what is written by hand here is `postgres`'s.

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
  'Trigger of failed_events: keeps the received payload in original_payload when somebody repairs it.';
