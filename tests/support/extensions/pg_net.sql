/*
 * What this project uses of pg_net: calls are put down in a queue, and nobody
 * makes them. It makes its schema itself.
 */
create schema if not exists net;

create table net.http_request_queue (
  id bigint generated always as identity,
  method text not null,
  url text not null,
  headers jsonb not null,
  body bytea,
  timeout_milliseconds integer not null
);

create function net.http_post(
  url text,
  body jsonb default '{}',
  params jsonb default '{}',
  headers jsonb default '{"Content-Type": "application/json"}',
  timeout_milliseconds integer default 5000
)
returns bigint
language plpgsql
as $$
declare
  request_id bigint;
begin
  if body is null then
    raise exception 'body must not be null';
  end if;
  perform from jsonb_each_text(headers) as h (name, value)
  where lower(name) = 'content-type' and value <> 'application/json';
  if found then
    raise exception 'Content-Type header must be "application/json"';
  end if;
  insert into net.http_request_queue (method, url, headers, body, timeout_milliseconds)
  values ('POST', url, headers, convert_to(body::text, 'UTF8'), timeout_milliseconds)
  returning id into request_id;
  return request_id;
end;
$$;

-- As since version 0.11.1.
grant usage on schema net to public;
grant all on all tables in schema net to public;
