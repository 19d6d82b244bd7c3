/*
 * What this project uses of Vault, with what Supabase grants on it: postgres
 * and service_role may read and delete secrets, and change them by Vault's
 * functions alone. The cipher is the text in reverse: enough to see which of
 * the two a query reads.
 */
create table vault.secrets (
  id uuid primary key default gen_random_uuid(),
  name text,
  description text not null default '',
  secret text not null
);
create unique index on vault.secrets (name) where name is not null;

create view vault.decrypted_secrets as
select s.id, s.name, s.description, s.secret, reverse(s.secret) as decrypted_secret
from vault.secrets s;

create function vault.create_secret(
  new_secret text, new_name text default null, new_description text default '', new_key_id uuid default null
)
returns uuid
language sql
security definer
set search_path = ''
as $$
  insert into vault.secrets (name, description, secret)
  values (new_name, new_description, reverse(new_secret))
  returning id
$$;

create function vault.update_secret(
  secret_id uuid, new_secret text default null, new_name text default null,
  new_description text default null, new_key_id uuid default null
)
returns void
language sql
security definer
set search_path = ''
as $$
  update vault.secrets s set
    secret = coalesce(reverse(new_secret), s.secret),
    name = coalesce(new_name, s.name),
    description = coalesce(new_description, s.description)
  where s.id = secret_id
$$;

revoke all on all functions in schema vault from public;
grant usage on schema vault to postgres with grant option;
grant usage on schema vault to service_role;
grant select, delete on vault.secrets, vault.decrypted_secrets to postgres with grant option;
grant select, delete on vault.secrets, vault.decrypted_secrets to service_role;
grant execute on all functions in schema vault to postgres with grant option;
grant execute on all functions in schema vault to service_role;
