/*
 * The ledger's event ids in byte order. A provider's ids begin with their time:
 * in Stripe's, five characters count seconds, in the order of their bytes. So new
 * ids go to the end of the index, to pages that are in memory. In the order of a
 * language, which a database usually has, they do not: its index is larger, each
 * event writes more log, and a new version of the C library may break it.
 *
 * This builds the primary key's index again and does not rewrite the table. Until
 * it is done, calls wait (CHANGELOG.md says for how long).
 */
alter table public.processed_events alter column event_id type text collate "C";

comment on column public.processed_events.event_id is
  'The provider''s event identifier, in byte order: ids that begin with their time follow each other.';
