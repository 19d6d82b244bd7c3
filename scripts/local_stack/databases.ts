import postgres from "postgres";

/** The password of every role that can log in. */
export const LOCAL_PASSWORD = "postgres";

/**
 * Creates the roles of Supabase's server, as far as they matter to this project,
 * with the time limits that Supabase sets. The superuser is `supabase_admin`;
 * migrations run as `postgres`, which is not a superuser.
 */
const ROLES_SQL = `
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
 * Creates what a project's migrations usually expect of each database: Supabase's
 * usual extensions; from Auth and Storage the tables and functions that foreign
 * keys, triggers and policies name, with neither users nor files; from Realtime
 * only the publication.
 */
export const DATABASE_SQL = `
  create schema extensions authorization postgres;
  create extension pgcrypto schema extensions;
  create extension "uuid-ossp" schema extensions;

  create schema auth authorization postgres;
  create table auth.users (
    id uuid primary key,
    email text,
    raw_app_meta_data jsonb,
    raw_user_meta_data jsonb,
    created_at timestamptz,
    updated_at timestamptz
  );
  grant all on auth.users to postgres;
  create function auth.jwt() returns jsonb language sql stable
    return nullif(current_setting('request.jwt.claims', true), '')::jsonb;
  create function auth.uid() returns uuid language sql stable
    return (auth.jwt() ->> 'sub')::uuid;
  create function auth.role() returns text language sql stable
    return auth.jwt() ->> 'role';

  create schema storage authorization postgres
    create table buckets (
      id text primary key,
      name text,
      public boolean,
      file_size_limit bigint,
      allowed_mime_types text[]
    )
    create table objects (
      id uuid primary key,
      bucket_id text,
      name text,
      owner uuid,
      owner_id text,
      metadata jsonb,
      path_tokens text[]
    );
  create function storage.foldername(name text) returns text[] language sql
    return trim_array(string_to_array(name, '/'), 1);
  create function storage.filename(name text) returns text language sql
    return split_part(name, '/', -1);
  create function storage.extension(name text) returns text language sql
    return split_part(name, '.', -1);

  grant usage on schema public, extensions, auth, storage
    to anon, authenticated, service_role;

  create publication supabase_realtime;
  alter publication supabase_realtime owner to postgres;
`;

export function databaseUrls(port: number, name = "postgres") {
  const rest = `${LOCAL_PASSWORD}@127.0.0.1:${port}/${name}`;
  return {
    adminUrl: `postgresql://supabase_admin:${rest}`,
    url: `postgresql://postgres:${rest}`,
  };
}

export async function setUpServer(port: number): Promise<void> {
  await withDatabase(databaseUrls(port).adminUrl, async (sql) => {
    const found = await sql`
      select from pg_roles where rolname = 'authenticator'`;
    if (found.length > 0) return;
    // In one transaction, so that a server has all of it or nothing.
    await sql.unsafe(`begin; ${ROLES_SQL} ${DATABASE_SQL} commit`);
  });
}

export async function withDatabase<T>(
  url: string,
  use: (sql: postgres.Sql) => Promise<T>,
): Promise<T> {
  const sql = postgres(url, { max: 1, onnotice() {} });
  try {
    return await use(sql);
  } finally {
    await sql.end();
  }
}
