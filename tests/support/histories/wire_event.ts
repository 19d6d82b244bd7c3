import { type HistoryEvent, recorded } from "./history_event.ts";

/** Returns an event as `apply_billing_events` takes it. */
export function wireEvent(event: HistoryEvent): Record<string, unknown> {
  const values = recorded(event.values);
  return {
    provider: "a",
    event_id: event.id,
    type: event.type,
    created: dateTime(event.created),
    subscription_id: event.subscription,
    account_id: event.namesAccount ? event.account : null,
    ...values,
    current_period_end: dateTime(values.current_period_end),
    cancel_at: dateTime(values.cancel_at),
    trial_end: dateTime(values.trial_end),
    previous: replaced(event),
    invoice_id: null,
  };
}

/**
 * The first three as they are in `previous_attributes`, of the others those that
 * the update changed.
 */
function replaced({ values, previous }: HistoryEvent): Record<string, unknown> {
  const { status, plan, periodEnd } = previous;
  const after = Object.entries(recorded(values));
  const before = new Map<string, unknown>(
    Object.entries(recorded({ ...values, ...previous })),
  );
  return {
    ...Object.fromEntries(
      after.filter(([name, value]) => before.get(name) !== value)
        .map(([name]) => [name, before.get(name)]),
    ),
    status,
    plan_id: plan,
    current_period_end: periodEnd,
  };
}

function dateTime(seconds: number | null): string | null {
  return seconds === null ? null : new Date(seconds * 1000).toISOString();
}
