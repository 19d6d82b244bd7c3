/**
 * What Supabase's Postgres has and a plain one does not, as far as it matters to
 * this project. The superuser is `supabase_admin`. Migrations run as `postgres`,
 * which is not a superuser.
 */

/** The password of every role that can log in. */
export const LOCAL_PASSWORD = "postgres";

/** The server's roles, with the time limits that Supabase sets. */
export const ROLES_SQL = `
  create role postgres login createdb createrole replication bypassrls
    password '${LOCAL_PASSWORD}';
  create role anon nologin noinherit;
  create role authenticated nologin noinherit;
  create role service_role nologin noinherit bypassrls;
  create role authenticator login noinherit password '${LOCAL_PASSWORD}';

  grant anon, authenticated, service_role to postgres, authenticator;
  grant pg_monitor, pg_read_all_data, pg_signal_backend to postgres;

  alter role authenticator set statement_timeout = '8s';
  alter role authenticator set lock_timeout = '8s';
  alter role anon set statement_timeout = '3s';
  alter role authenticated set statement_timeout = '8s';
  alter role postgres set search_path = "$user", public, extensions;

  alter database postgres owner to postgres;
`;

/**
 * What is created in each database. Its owner is `postgres`.
 *
 * From Supabase Auth there are the functions that policies call, but no users;
 * from Realtime the publication, but nothing that reads it.
 */
export const DATABASE_SQL = `
  create schema extensions authorization postgres;
  grant usage on schema extensions to anon, authenticated, service_role;
  grant usage on schema public to anon, authenticated, service_role;

  create schema auth authorization postgres;
  grant usage on schema auth to anon, authenticated, service_role;
  create function auth.jwt() returns jsonb language sql stable
    return nullif(current_setting('request.jwt.claims', true), '')::jsonb;
  create function auth.uid() returns uuid language sql stable
    return (nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub')::uuid;

  create publication supabase_realtime;
  alter publication supabase_realtime owner to postgres;
`;
