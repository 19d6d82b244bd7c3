import { type HistoryEvent, recorded } from "./history_event.ts";

const KINDS = {
  "customer.subscription.created": "creation",
  "customer.subscription.updated": "update",
  "customer.subscription.deleted": "deletion",
  "invoice.payment_failed": "payment_failed",
} as const;

/** Returns an event as `billing_apply_events` takes it. */
export function wireEvent(
  event: HistoryEvent,
  index: number,
): Record<string, unknown> {
  const kind = KINDS[event.type];
  const { customer } = event.values;
  return {
    place: index + 1,
    provider: "a",
    event_id: event.id,
    type: event.type,
    kind,
    occurred_at: dateTime(event.created),
    subscription_id: event.subscription,
    account_id: kind === "creation" && event.namesAccount
      ? event.account
      : null,
    report: kind === "creation" || kind === "update"
      ? wireReport(recorded(event.values))
      : { customer_id: customer },
    previous: kind === "update" ? replaced(event) : null,
    payment: kind === "payment_failed" ? {} : null,
  };
}

/** What the update changed, and what stands beside that in an item that is sent whole. */
function replaced(
  { values, previous }: HistoryEvent,
): Record<string, unknown> {
  const after = wireReport(recorded(values));
  const before = wireReport(recorded({ ...values, ...previous }));
  return Object.fromEntries(
    Object.entries(before).filter(([name, value]) => value !== after[name]),
  );
}

function wireReport(
  { status: _, ...values }: ReturnType<typeof recorded>,
): Record<string, unknown> {
  return {
    ...values,
    current_period_end: dateTime(values.current_period_end),
    cancel_at: dateTime(values.cancel_at),
    trial_end: dateTime(values.trial_end),
  };
}

function dateTime(seconds: number | null): string | null {
  return seconds === null ? null : new Date(seconds * 1000).toISOString();
}
