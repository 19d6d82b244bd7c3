import type { SubscriptionRecord } from "./records.ts";

/** The value of a field; times as in ISO 8601. */
export type FieldValue = string | number | boolean | null;

/** A field with one value in the record and another one at Stripe. */
export interface FieldDifference {
  readonly field: string;
  readonly here: FieldValue;
  readonly there: FieldValue;
}

const FIELDS = [
  "provider",
  "account_id",
  "status",
  "plan_id",
  "current_period_end",
  "canceled_at",
  "provider_status",
  "customer_id",
  "quantity",
  "cancel_at",
  "trial_end",
  "paused",
  "livemode",
] as const;

/** The columns with the times of the newest events that the record took. */
const MARKS = ["account_as_of", "changed_as_of", "canceled_as_of"] as const;

/**
 * Returns the fields of a record that differ from Stripe's, and the marks that
 * are later than any event can be. Such a mark freezes the record.
 *
 * @param options.values The fields as `apply_billing_events` takes them.
 * @param options.latestSeconds How late an event can be, in Unix seconds.
 */
export function fieldDifferences(
  record: SubscriptionRecord,
  { values, isCanceled, latestSeconds }: {
    values: Readonly<Record<string, FieldValue>>;
    isCanceled: boolean;
    latestSeconds: number;
  },
): FieldDifference[] {
  const here = {
    ...record,
    current_period_end: isoTime(record.current_period_end),
    cancel_at: isoTime(record.cancel_at),
    trial_end: isoTime(record.trial_end),
    // The time of handling: only whether there is one can be compared.
    canceled_at: record.canceled_at === null ? null : "set",
  };
  // A creation is recorded as active, whatever status it reports.
  const isAsCreated = here.status === "active" && !here.changed_by_update &&
    here.provider_status === values["provider_status"];
  const there: Readonly<Record<string, FieldValue | undefined>> = {
    ...values,
    ...(isAsCreated && { status: here.status }),
    // A deletion sets the status only, and not what an update reported last.
    ...(isCanceled && here.provider_status !== null &&
      { provider_status: here.provider_status }),
    canceled_at: isCanceled ? "set" : here.canceled_at,
  };
  const latest = new Date(latestSeconds * 1000);
  return [
    ...FIELDS.filter((field) => here[field] !== there[field])
      .map((field) => ({
        field,
        here: here[field],
        there: there[field] ?? null,
      })),
    ...MARKS.filter((mark) => new Date(record[mark] ?? 0) > latest)
      .map((mark) => ({
        field: mark,
        here: new Date(record[mark] ?? 0).toISOString(),
        there: `at most ${latest.toISOString()}`,
      })),
  ];
}

function isoTime(time: string | null): string | null {
  return time === null ? null : new Date(time).toISOString();
}

/** Returns whether a record takes no events because a mark is ahead. */
export function isFrozen(fields: readonly FieldDifference[]): boolean {
  return MARKS.some((mark) => fields.some(({ field }) => field === mark));
}
