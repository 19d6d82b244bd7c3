import type { SubscriptionRecord } from "./records.ts";

/** A field that is not the same. */
export interface Difference {
  readonly field: string;
  readonly here: string | null;
  readonly there: string | null;
}

/** The times of the newest events that a record took. */
const MARKS = ["account_as_of", "changed_as_of", "canceled_as_of"] as const;

/**
 * Returns the fields of a record that are not as the provider has them, and
 * its marks that are later than any event can be. These freeze the record.
 *
 * @param options.there As `apply_billing_events` takes them.
 * @param options.latest How late an event can be, in Unix seconds.
 */
export function differences(
  record: SubscriptionRecord,
  { there, isCanceled, latest }: {
    there: Partial<Record<string, string>>;
    isCanceled: boolean;
    latest: number;
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
    ...marksAfter(new Date(latest * 1000), record),
  ].filter(({ here, there }) => here !== there);
}

function marksAfter(latest: Date, record: SubscriptionRecord): Difference[] {
  return MARKS.flatMap((field) => {
    const mark = record[field] === null ? null : new Date(record[field]);
    if (mark === null || mark <= latest) return [];
    const there = `at most ${latest.toISOString()}`;
    return [{ field, here: mark.toISOString(), there }];
  });
}

/** Whether a record takes no events because of a mark that is ahead. */
export function isFrozen(fields: readonly Difference[]): boolean {
  return MARKS.some((mark) => fields.some(({ field }) => field === mark));
}
