import type { HistoryEvent } from "./history.ts";

/** Returns an event as `apply_billing_events` takes it. */
export function wireEvent(event: HistoryEvent): Record<string, unknown> {
  const { status, plan, periodEnd } = event.previous;
  return {
    provider: "a",
    event_id: event.id,
    type: event.type,
    created: dateTime(event.created),
    subscription_id: event.subscription,
    account_id: event.account,
    status: event.values.status,
    plan_id: event.values.plan,
    current_period_end: dateTime(event.values.periodEnd),
    previous: { status, plan_id: plan, current_period_end: periodEnd },
    invoice_id: null,
  };
}

function dateTime(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}
