/*
 * Verified events that could not be processed and may need a person. One row per
 * event, however often it fails. A later delivery that applies the event, a
 * requested retry, or a person resolves the row.
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

-- Open failures, for triage.
create index failed_events_open on public.failed_events (error_code, first_failed_at)
where resolved_at is null;

-- Requested retries, for the worker.
create index failed_events_to_retry on public.failed_events (retry_requested_at)
where retry_requested_at is not null;

alter table public.failed_events enable row level security;

revoke all on table public.failed_events from public, anon, authenticated, service_role;
grant select, insert, update on table public.failed_events to service_role;

comment on table public.failed_events is
  'Verified events that failed, one row per event. Open while resolved_at is null. docs/runbook.md says what to do.';
comment on column public.failed_events.event_id is
  'The event''s id; sha256:<hash of the body in hex> if it has no usable id.';
comment on column public.failed_events.type is 'The event''s type; null where it could not be read.';
comment on column public.failed_events.payload is
  'The whole event as received, or as repaired; payload_encoding says how to read it. Null after pruning.';
comment on column public.failed_events.payload_encoding is
  'json: the event itself. text: the body as a JSON string, if jsonb cannot store it as JSON, or only with numbers of more than 40 digits. base64: the bytes of the body as a JSON string, if they are not text.';
comment on column public.failed_events.original_payload is
  'The payload as received, if payload was repaired since.';
comment on column public.failed_events.error_code is
  'Why it failed: one of the codes in docs/runbook.md.';
comment on column public.failed_events.error is 'The message of the newest failure that is about the event itself: a delivery that fails with repair_pending keeps it.';
comment on column public.failed_events.attempts is 'How many deliveries and retries of this event have failed.';
comment on column public.failed_events.retry_requested_at is
  'When a retry was requested; null after the worker has tried.';
comment on column public.failed_events.retry_leased_until is 'When the lease of the worker that claimed it ends.';
comment on column public.failed_events.retry_lease_id is 'The claim of that worker.';
comment on column public.failed_events.resolved_at is
  'When it was resolved; null while it is open.';
comment on column public.failed_events.resolution is
  'How it was resolved: applied, stale or duplicate according to the ledger, ignored because it has no effect, or by hand.';
comment on column public.failed_events.resolution_note is 'The reason, if it was resolved by hand.';
comment on column public.failed_events.resolved_by is 'The person, if it was resolved by hand.';
comment on column public.failed_events.subscription_id is 'The subscription, if the payload has it.';
comment on column public.failed_events.account_id is 'The account, if the payload has it.';
comment on column public.failed_events.event_created is
  'When the event occurred, in Unix seconds, if the payload has it.';
