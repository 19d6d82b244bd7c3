/*
 * What this project uses of Vault, with what Supabase grants on it: postgres
 * and service_role may read and delete secrets, and make them by Vault's
 * function alone. The cipher is the text in reverse: enough to see which of
 * the two a query reads.
 */
create table vault.secrets (
  id uuid primary key default gen_random_uuid(),
  name text,
  secret text not null
);
create unique index on vault.secrets (name) where name is not null;

create view vault.decrypted_secrets as
select s.id, s.name, s.secret, reverse(s.secret) as decrypted_secret
from vault.secrets s;

create function vault.create_secret(new_secret text, new_name text default null)
returns uuid
language sql
security definer
set search_path = ''
as $$
  insert into vault.secrets (name, secret)
  values (new_name, reverse(new_secret))
  returning id
$$;

revoke all on all functions in schema vault from public;
grant usage on schema vault to postgres with grant option;
grant usage on schema vault to service_role;
grant select, delete on vault.secrets, vault.decrypted_secrets to postgres with grant option;
grant select, delete on vault.secrets, vault.decrypted_secrets to service_role;
grant execute on all functions in schema vault to postgres with grant option;
grant execute on all functions in schema vault to service_role;
