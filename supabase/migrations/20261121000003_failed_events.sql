/*
 * Verified events that could not be processed: the ones that may need a person.
 * One row an event, however often it fails. The row is resolved by the
 * transaction that applies the event on a later delivery.
 */
create table public.failed_events (
  provider text not null check (char_length(provider) between 1 and 32),
  event_id text not null check (char_length(event_id) between 1 and 255),
  type text,
  payload jsonb not null,
  payload_encoding text not null check (payload_encoding in ('json', 'text', 'base64')),
  error_code text not null,
  error text not null,
  attempts integer not null default 1 check (attempts > 0),
  first_failed_at timestamptz not null default now(),
  last_failed_at timestamptz not null default now(),
  resolved_at timestamptz,
  primary key (provider, event_id)
);

alter table public.failed_events enable row level security;

revoke all on table public.failed_events from public, anon, authenticated, service_role;
grant select, insert, update on table public.failed_events to service_role;

comment on table public.failed_events is
  'Verified events that failed, one row an event. Open while resolved_at is null.';
comment on column public.failed_events.event_id is
  'The event''s id; sha256:<hex of the body> where it has none that can be used.';
comment on column public.failed_events.type is 'The event''s type; null where it could not be read.';
comment on column public.failed_events.payload is
  'The whole event as it was received; read it together with payload_encoding.';
comment on column public.failed_events.payload_encoding is
  'json: the event itself. text: a JSON string of the body, which jsonb cannot hold as JSON. base64: a JSON string of the body''s bytes, which are not text.';
comment on column public.failed_events.error_code is
  'Why it failed, as a code of the closed set in docs/runbook.md.';
comment on column public.failed_events.error is 'The message of the newest failure.';
comment on column public.failed_events.attempts is 'How many deliveries of this event have failed.';
comment on column public.failed_events.resolved_at is
  'When it was applied after all; null while it is open.';
