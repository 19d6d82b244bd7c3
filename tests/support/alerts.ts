import type { Alert } from "../../supabase/functions/billing-worker/channels/channel.ts";

/** An alert, as the database hands it to a worker. */
export const OPENED: Alert = {
  id: "22ea7bdb-ac40-475d-b354-f87fe5d7c4c1",
  created_at: "2026-11-21T06:25:00.113987+00:00",
  kind: "failure_opened",
  alert: {
    error_code: "event_invalid",
    error: "data.object.metadata.accountId is missing",
    open: 12,
    new: 3,
    first_failed_at: "2026-11-21T05:07:41.5+00:00",
    last_failed_at: "2026-11-21T06:24:03.113987+00:00",
    newest_first_failed_at: "2026-11-21T06:24:02.5+00:00",
    provider: "a",
    event_id: "evt_1",
    event_type: "customer.subscription.created",
  },
};

/** The alert after it. */
export const RESOLVED: Alert = {
  ...OPENED,
  id: "44ea7bdb-ac40-475d-b354-f87fe5d7c4c1",
  created_at: "2026-11-21T09:00:00.5+00:00",
  kind: "failures_resolved",
  alert: {
    error_code: "event_invalid",
    resolved: 12,
    opened_at: "2026-11-21T06:25:00.113987+00:00",
  },
};
