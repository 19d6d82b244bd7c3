/*
 * A stand-in for what Supabase Realtime keeps in Postgres, as far as a trigger
 * and a policy meet it: the table of messages, with its rights and partitions,
 * and the two functions with their signatures. Like the real one, `send` turns
 * every error into a warning, and has nowhere to put a message if today's
 * partition is missing.
 *
 * After github.com/supabase/realtime, lib/realtime/tenants/repo/migrations:
 * 20260420000000_squash_migrations.
 */
create schema realtime;
grant usage on schema realtime to anon, authenticated, service_role;

create table realtime.messages (
  id uuid not null default gen_random_uuid(),
  topic text not null,
  extension text not null,
  event text,
  payload jsonb,
  private boolean default false,
  inserted_at timestamp not null default now(),
  updated_at timestamp not null default now(),
  primary key (id, inserted_at)
) partition by range (inserted_at);
create table realtime.messages_today partition of realtime.messages
  for values from ('2000-01-01') to ('2100-01-01');
alter table realtime.messages enable row level security;
grant select, insert, update on realtime.messages to anon, authenticated, service_role;

create function realtime.topic() returns text language sql stable
  return nullif(current_setting('realtime.topic', true), '');

create function realtime.send(
  payload jsonb, event text, topic text, private boolean default true
)
returns void
language plpgsql
as $$
declare
  message_id uuid := gen_random_uuid();
begin
  perform set_config('realtime.topic', topic, true);
  insert into realtime.messages (id, topic, extension, event, payload, private)
  values (message_id, topic, 'broadcast', event, jsonb_build_object('id', message_id) || payload, private);
exception
  when others then
    raise warning 'ErrorSendingBroadcastMessage: %', sqlerrm;
end;
$$;
