-- Written by "deno task types". Defined in:
-- supabase/migrations/20261121000024_billing_0024_billing_health.sql

create view public.billing_health with (security_invoker=true) as
 SELECT ( SELECT max(p.processed_at) AS max
           FROM public.processed_events p) AS last_event_at,
    f.open_failures,
    f.oldest_open_failure,
    f.retries_requested,
    n.notifications_pending,
    n.oldest_pending_notification,
    ( SELECT count(*) AS count
           FROM public.notifications d
          WHERE (d.status = ANY (ARRAY['dead'::text, 'undeliverable'::text]))) AS notifications_given_up,
    ( SELECT (GREATEST(c.reltuples, (0)::real))::bigint AS "greatest"
           FROM pg_class c
          WHERE (c.oid = ('public.processed_events'::regclass)::oid)) AS ledger_rows_estimate
   FROM ( SELECT count(*) AS open_failures,
            min(o.first_failed_at) AS oldest_open_failure,
            count(o.retry_requested_at) AS retries_requested
           FROM public.failed_events o
          WHERE (o.resolved_at IS NULL)) f,
    ( SELECT count(*) AS notifications_pending,
            min(w.created_at) AS oldest_pending_notification
           FROM public.notifications w
          WHERE (w.status = 'pending'::text)) n;

comment on view public.billing_health is 'One row: the time of the newest event, open failures, pending notifications, notifications that were given up, and the size of the ledger as the planner estimates it.';

grant SELECT on table public.billing_health to service_role;
