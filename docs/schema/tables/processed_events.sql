-- Written by "deno task types". Defined in:
-- supabase/migrations/20261121000002_billing_0002_processed_events.sql
-- supabase/migrations/20261121000024_billing_0024_billing_health.sql
-- supabase/migrations/20261122000018_billing_0045_ledger_in_byte_order.sql

create table public.processed_events (
  provider text not null,
  event_id text collate "C" not null,
  type text not null,
  outcome text default 'applied'::text not null,
  processed_at timestamp with time zone default now() not null
);

alter table public.processed_events add constraint processed_events_event_id_check CHECK (((char_length(event_id) >= 1) AND (char_length(event_id) <= 255)));

alter table public.processed_events add constraint processed_events_outcome_check CHECK ((outcome = ANY (ARRAY['applied'::text, 'stale'::text])));

alter table public.processed_events add constraint processed_events_pkey PRIMARY KEY (provider, event_id);

alter table public.processed_events add constraint processed_events_provider_check CHECK (((char_length(provider) >= 1) AND (char_length(provider) <= 32)));

CREATE INDEX processed_events_processed_at ON public.processed_events USING btree (processed_at);

alter table public.processed_events enable row level security;

comment on column public.processed_events.event_id is 'The provider''s event identifier, in byte order: ids that begin with their time follow each other.';

comment on column public.processed_events.outcome is 'applied; or stale: the event was older than the record and changed nothing.';

comment on table public.processed_events is 'The ledger of applied events. An event with a row here is a duplicate if it arrives again.';

grant DELETE, INSERT, SELECT, UPDATE on table public.processed_events to service_role;
