import type { SubscriptionRecord } from "./records.ts";

/** How Stripe's subscription and its record differ. `--json` prints it as it is. */
export type SubscriptionDifference =
  | {
    readonly kind: "missing_here";
    readonly subscription: string;
    readonly account: string;
  }
  /** Missing here, and without an account ID. */
  | {
    readonly kind: "unmapped";
    readonly subscription: string;
    readonly customer: string;
  }
  /** Stripe's subscription lacks a field that is needed. */
  | {
    readonly kind: "unreadable";
    readonly subscription: string;
    readonly error: string;
  }
  | {
    readonly kind: "differs";
    readonly subscription: string;
    readonly fields: readonly FieldDifference[];
  };

/** Any difference between Stripe and the tables. `--json` prints it as it is. */
export type Difference =
  | SubscriptionDifference
  | { readonly kind: "missing_there"; readonly subscription: string }
  /** Never acknowledged, and not in the tables either. */
  | {
    readonly kind: "undelivered";
    readonly event: string;
    readonly type: string;
    readonly subscription: string | null;
  }
  /** An open row of `failed_events`. */
  | {
    readonly kind: "failed";
    readonly event: string;
    readonly type: string | null;
    readonly subscription: string | null;
    readonly error_code: string;
  };

/** A field with one value in the record and another one at Stripe. */
export interface FieldDifference {
  readonly field: string;
  readonly here: string | null;
  readonly there: string | null;
}

const FIELDS = [
  "provider",
  "account_id",
  "status",
  "plan_id",
  "current_period_end",
  "canceled_at",
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
    values: Readonly<Record<string, string>>;
    isCanceled: boolean;
    latestSeconds: number;
  },
): FieldDifference[] {
  const here = {
    ...record,
    current_period_end: new Date(record.current_period_end).toISOString(),
    // The time of handling: only whether there is one can be compared.
    canceled_at: record.canceled_at === null ? null : "set",
  };
  const there: Record<string, string | null> = {
    ...values,
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

/** Returns whether a record takes no events because a mark is ahead. */
export function isFrozen(fields: readonly FieldDifference[]): boolean {
  return MARKS.some((mark) => fields.some(({ field }) => field === mark));
}
