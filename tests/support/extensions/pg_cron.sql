/*
 * What this project uses of pg_cron, with its signatures, its row level
 * security, and what Supabase grants to postgres after creating it: jobs can be
 * read, and are changed by cron's functions alone.
 */
create schema cron;

create table cron.job (
  jobid bigint generated always as identity primary key,
  schedule text not null,
  command text not null,
  username text not null default current_user,
  active boolean not null default true,
  jobname text,
  unique (jobname, username)
);
alter table cron.job enable row level security;
create policy own_jobs on cron.job using (username = current_user);

create table cron.job_run_details (
  jobid bigint,
  username text default current_user,
  command text,
  start_time timestamptz,
  end_time timestamptz
);
alter table cron.job_run_details enable row level security;
create policy own_runs on cron.job_run_details using (username = current_user);

-- Whose job it is: the role that is set, as the CLI sets postgres, or the session's.
create function cron.caller()
returns text
language sql
stable
set search_path = ''
return coalesce(nullif(current_setting('role'), 'none'), session_user);

create function cron.schedule(job_name text, schedule text, command text)
returns bigint
language plpgsql
security definer
set search_path = ''
as $$
#variable_conflict use_column
declare
  id bigint;
begin
  if schedule.schedule !~ '^((\S+ ){4}\S+|\d+ seconds)$' then
    raise exception 'invalid schedule: %', schedule.schedule;
  end if;
  insert into cron.job (jobname, schedule, command, username)
  values (job_name, schedule.schedule, schedule.command, cron.caller())
  on conflict (jobname, username) do update set schedule = excluded.schedule, command = excluded.command
  returning jobid into id;
  return id;
end;
$$;

create function cron.unschedule(job_name text)
returns boolean
language plpgsql
security definer
set search_path = ''
as $$
begin
  delete from cron.job where jobname = job_name and username = cron.caller();
  if not found then
    raise exception 'could not find valid entry for job ''%''', job_name;
  end if;
  return true;
end;
$$;

create function cron.alter_job(job_id bigint, active boolean)
returns void
language sql
security definer
set search_path = ''
as $$
  update cron.job j set active = $2 where j.jobid = $1
$$;

grant usage on schema cron to postgres with grant option;
grant all on all functions in schema cron to postgres with grant option;
grant select on cron.job to postgres with grant option;
grant all on cron.job_run_details to postgres with grant option;
