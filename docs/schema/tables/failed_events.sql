-- Written by "deno task types". Defined in:
-- supabase/migrations/20261121000003_billing_0003_failed_events.sql
-- supabase/migrations/20261121000016_billing_0016_keep_original_payload.sql
-- supabase/migrations/20261121000026_billing_0026_prune_billing_tables.sql

create table public.failed_events (
  provider text not null,
  event_id text not null,
  type text,
  payload jsonb,
  payload_encoding text not null,
  original_payload jsonb,
  error_code text not null,
  error text not null,
  attempts integer default 1 not null,
  first_failed_at timestamp with time zone default now() not null,
  last_failed_at timestamp with time zone default now() not null,
  retry_requested_at timestamp with time zone,
  retry_leased_until timestamp with time zone,
  retry_lease_id uuid,
  resolved_at timestamp with time zone,
  resolution text,
  resolution_note text,
  resolved_by text,
  subscription_id text generated always as (
CASE
    WHEN (type ~~ 'customer.subscription.%'::text) THEN (payload #>> '{data,object,id}'::text[])
    ELSE COALESCE((payload #>> '{data,object,subscription,id}'::text[]), (payload #>> '{data,object,subscription}'::text[]), (payload #>> '{data,object,parent,subscription_details,subscription}'::text[]))
END) stored,
  account_id text generated always as ((payload #>> '{data,object,metadata,accountId}'::text[])) stored,
  event_created numeric generated always as (
CASE
    WHEN (jsonb_typeof((payload -> 'created'::text)) = 'number'::text) THEN ((payload ->> 'created'::text))::numeric
    ELSE NULL::numeric
END) stored
);

alter table public.failed_events add constraint failed_events_attempts_check CHECK ((attempts > 0));

alter table public.failed_events add constraint failed_events_check CHECK (((resolved_at IS NULL) = (resolution IS NULL)));

alter table public.failed_events add constraint failed_events_event_id_check CHECK (((char_length(event_id) >= 1) AND (char_length(event_id) <= 255)));

alter table public.failed_events add constraint failed_events_payload_encoding_check CHECK ((payload_encoding = ANY (ARRAY['json'::text, 'text'::text, 'base64'::text])));

alter table public.failed_events add constraint failed_events_pkey PRIMARY KEY (provider, event_id);

alter table public.failed_events add constraint failed_events_provider_check CHECK (((char_length(provider) >= 1) AND (char_length(provider) <= 32)));

alter table public.failed_events add constraint failed_events_resolution_check CHECK ((resolution = ANY (ARRAY['applied'::text, 'duplicate'::text, 'stale'::text, 'ignored'::text, 'by hand'::text])));

CREATE INDEX failed_events_open ON public.failed_events USING btree (error_code, first_failed_at) WHERE (resolved_at IS NULL);

CREATE INDEX failed_events_resolved ON public.failed_events USING btree (resolved_at) WHERE (resolved_at IS NOT NULL);

CREATE INDEX failed_events_to_retry ON public.failed_events USING btree (retry_requested_at) WHERE (retry_requested_at IS NOT NULL);

CREATE TRIGGER keep_original_payload BEFORE UPDATE OF payload ON public.failed_events FOR EACH ROW WHEN (((old.payload IS DISTINCT FROM new.payload) AND (new.payload IS NOT NULL) AND (old.attempts = new.attempts))) EXECUTE FUNCTION public.keep_original_payload();

alter table public.failed_events enable row level security;

comment on column public.failed_events.account_id is 'The account, if the payload has it.';

comment on column public.failed_events.attempts is 'How many deliveries and retries of this event have failed.';

comment on column public.failed_events.error is 'The message of the newest failure that is about the event itself: a delivery that fails with repair_pending keeps it.';

comment on column public.failed_events.error_code is 'Why it failed: one of the codes in docs/runbook.md.';

comment on column public.failed_events.event_created is 'When the event occurred, in Unix seconds, if the payload has it.';

comment on column public.failed_events.event_id is 'The event''s id; sha256:<hash of the body in hex> if it has no usable id.';

comment on column public.failed_events.original_payload is 'The payload as received, if payload was repaired since.';

comment on column public.failed_events.payload is 'The whole event as received, or as repaired; payload_encoding says how to read it. Null after pruning.';

comment on column public.failed_events.payload_encoding is 'json: the event itself. text: the body as a JSON string, if jsonb cannot store it as JSON, or only with numbers of more than 40 digits. base64: the bytes of the body as a JSON string, if they are not text.';

comment on column public.failed_events.resolution is 'How it was resolved: applied, stale or duplicate according to the ledger, ignored because it has no effect, or by hand.';

comment on column public.failed_events.resolution_note is 'The reason, if it was resolved by hand.';

comment on column public.failed_events.resolved_at is 'When it was resolved; null while it is open.';

comment on column public.failed_events.resolved_by is 'The person, if it was resolved by hand.';

comment on column public.failed_events.retry_lease_id is 'The claim of that worker.';

comment on column public.failed_events.retry_leased_until is 'When the lease of the worker that claimed it ends.';

comment on column public.failed_events.retry_requested_at is 'When a retry was requested; null after the worker has tried.';

comment on column public.failed_events.subscription_id is 'The subscription, if the payload has it.';

comment on column public.failed_events.type is 'The event''s type; null where it could not be read.';

comment on table public.failed_events is 'Verified events that failed, one row per event. Open while resolved_at is null. docs/runbook.md says what to do.';

grant INSERT, SELECT, UPDATE on table public.failed_events to service_role;
