import type { SubscriptionRecord } from "./records.ts";

/** A field that is not the same. */
export interface Difference {
  readonly field: string;
  readonly here: string | null;
  readonly there: string | null;
}

/**
 * The fields of a record that are not as the provider has them.
 *
 * @param options.there As `apply_billing_events` takes them.
 */
export function differences(
  record: SubscriptionRecord,
  { there, isCanceled }: {
    there: Partial<Record<string, string>>;
    isCanceled: boolean;
  },
): Difference[] {
  const periodEnd = new Date(record.current_period_end).toISOString();
  const fields = ["provider", "account_id", "status", "plan_id"] as const;
  return [
    ...fields.map((field) => ({
      field,
      here: record[field],
      there: there[field] ?? null,
    })),
    {
      field: "current_period_end",
      here: periodEnd,
      there: there["current_period_end"] ?? null,
    },
    // The time of handling here: all that can be compared is that there is one.
    ...(isCanceled
      ? [{
        field: "canceled_at",
        here: record.canceled_at === null ? null : "set",
        there: "set",
      }]
      : []),
  ].filter(({ here, there }) => here !== there);
}
