/*
 * Repairing a payload (`update failed_events set payload = ...`) keeps what was
 * received. A repair is what changes the payload without counting an attempt;
 * record_failed_event always counts one.
 *
 * The type is read anew: subscription_id, and so the order of retries, hangs on
 * it. A worker that has the row tries what it read before the repair, so it
 * loses the row: a retry that was asked for is one of the repaired payload.
 * lock_failed_event refuses to apply what it read.
 *
 * A row that was resolved meanwhile would claim that the repaired payload was
 * applied, so it takes no repair.
 */
create function public.keep_original_payload()
returns trigger
language plpgsql
volatile
set search_path = ''
as $$
begin
  if new.resolved_at is not null then
    raise exception 'Cannot repair %: it is resolved already (%).', new.event_id, new.resolution
      using hint = 'Nothing was changed. To retry one that was resolved by hand, open it again first: docs/runbook.md.';
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
  'Trigger of failed_events: keeps the received payload in original_payload when somebody repairs it. Refuses the repair of a resolved row.';
