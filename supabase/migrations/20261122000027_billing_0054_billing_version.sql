/*
 * The newest migration of the receiver in this database, by its number. It is
 * still known after a squash, which keeps neither names nor versions. The last
 * migration of each release replaces it; a test compares it with the files.
 */
create or replace function public.billing_version()
returns text
language sql
immutable
set search_path = ''
as $$
  select '0054'
$$;

revoke all on function public.billing_version() from public, anon, authenticated, service_role;
grant execute on function public.billing_version() to service_role;

comment on function public.billing_version() is
  'The number of the newest migration of the receiver that this database has.';
