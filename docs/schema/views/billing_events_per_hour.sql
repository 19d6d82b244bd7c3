-- Written by "deno task types". Defined in:
-- supabase/migrations/20261121000024_billing_0024_billing_health.sql

create view public.billing_events_per_hour with (security_invoker=true) as
 SELECT date_trunc('hour'::text, at) AS hour,
    type,
    outcome,
    count(*) AS events
   FROM ( SELECT p.processed_at AS at,
            p.type,
            p.outcome
           FROM public.processed_events p
          WHERE (p.processed_at > (now() - '3 days'::interval))
        UNION ALL
         SELECT f.last_failed_at,
            f.type,
            'failed'::text
           FROM public.failed_events f
          WHERE ((f.resolved_at IS NULL) AND (f.last_failed_at > (now() - '3 days'::interval)))) e
  GROUP BY (date_trunc('hour'::text, at)), type, outcome
  ORDER BY (date_trunc('hour'::text, at)) DESC, (count(*)) DESC;

comment on view public.billing_events_per_hour is 'Events of the last three days per hour, type and outcome (applied, stale, or failed and still open).';

grant SELECT on table public.billing_events_per_hour to service_role;
