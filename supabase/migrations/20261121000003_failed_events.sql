/*
 * Verified events that could not be processed: the ones that may need a person.
 * One row an event, however often it fails. The row is resolved by the
 * transaction that applies the event on a later delivery, by a retry that
 * somebody asked for, or by hand.
 */
create table public.failed_events (
  provider text not null check (char_length(provider) between 1 and 32),
  event_id text not null check (char_length(event_id) between 1 and 255),
  type text,
  payload jsonb,
  payload_encoding text not null check (payload_encoding in ('json', 'text', 'base64')),
  original_payload jsonb,
  error_code text not null,
  error text not null,
  attempts integer not null default 1 check (attempts > 0),
  first_failed_at timestamptz not null default now(),
  last_failed_at timestamptz not null default now(),
  retry_requested_at timestamptz,
  retry_leased_until timestamptz,
  retry_lease_id uuid,
  resolved_at timestamptz,
  resolution text check (resolution in ('applied', 'duplicate', 'stale', 'ignored', 'by hand')),
  resolution_note text,
  resolved_by text,

  subscription_id text generated always as (
    case
      when type like 'customer.subscription.%' then payload #>> '{data,object,id}'
      else coalesce(
        payload #>> '{data,object,subscription,id}',
        payload #>> '{data,object,subscription}',
        payload #>> '{data,object,parent,subscription_details,subscription}'
      )
    end
  ) stored,
  account_id text generated always as (payload #>> '{data,object,metadata,accountId}') stored,
  event_created numeric generated always as (
    case when jsonb_typeof(payload -> 'created') = 'number' then (payload ->> 'created')::numeric end
  ) stored,

  primary key (provider, event_id),
  check ((resolved_at is null) = (resolution is null))
);

-- What is open, for triage; resolved rows leave it.
create index failed_events_open on public.failed_events (error_code, first_failed_at)
where resolved_at is null;

-- What the worker has to do.
create index failed_events_to_retry on public.failed_events (retry_requested_at)
where retry_requested_at is not null;

alter table public.failed_events enable row level security;

revoke all on table public.failed_events from public, anon, authenticated, service_role;
grant select, insert, update on table public.failed_events to service_role;

comment on table public.failed_events is
  'Verified events that failed, one row an event. Open while resolved_at is null. docs/runbook.md says what to do.';
comment on column public.failed_events.event_id is
  'The event''s id; sha256:<hex of the body> where it has none that can be used.';
comment on column public.failed_events.type is 'The event''s type; null where it could not be read.';
comment on column public.failed_events.payload is
  'The whole event as it was received, or as it was repaired; read it together with payload_encoding. Null once pruned.';
comment on column public.failed_events.payload_encoding is
  'json: the event itself. text: a JSON string of the body, which jsonb cannot hold as JSON, or only with numbers of more than 40 digits. base64: a JSON string of the body''s bytes, which are not text.';
comment on column public.failed_events.original_payload is
  'What was received, where somebody has repaired payload since.';
comment on column public.failed_events.error_code is
  'Why it failed, as a code of the closed set in docs/runbook.md.';
comment on column public.failed_events.error is 'The message of the newest failure.';
comment on column public.failed_events.attempts is 'How many deliveries and retries of this event have failed.';
comment on column public.failed_events.retry_requested_at is
  'When somebody asked for a retry; null once the worker has tried.';
comment on column public.failed_events.retry_leased_until is 'Until then one worker has it.';
comment on column public.failed_events.retry_lease_id is 'That worker''s claim.';
comment on column public.failed_events.resolved_at is
  'When it was settled; null while it is open.';
comment on column public.failed_events.resolution is
  'How: applied, stale or duplicate by the ledger, ignored because it has no effect, or by hand.';
comment on column public.failed_events.resolution_note is 'Why, where somebody resolved it by hand.';
comment on column public.failed_events.resolved_by is 'Who, where somebody resolved it by hand.';
comment on column public.failed_events.subscription_id is 'The subscription, where the payload tells.';
comment on column public.failed_events.account_id is 'The account, where the payload tells.';
comment on column public.failed_events.event_created is
  'When the event occurred, in Unix seconds, where the payload tells.';
