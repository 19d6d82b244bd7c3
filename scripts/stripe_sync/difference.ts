import type { FieldDifference } from "./field_differences.ts";

/** How Stripe's subscription and its record differ. `--json` prints it as it is. */
export type SubscriptionDifference =
  | {
    readonly kind: "missing_here";
    readonly subscription: string;
    readonly account: string;
  }
  | UnmappedDifference
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

/** Missing here, and nobody says whose it is. */
export interface UnmappedDifference {
  readonly kind: "unmapped";
  readonly subscription: string;
  readonly customer: string;
}

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
  /** An open row of `billing.failed_events`. */
  | {
    readonly kind: "failed";
    readonly event: string;
    readonly type: string | null;
    readonly subscription: string | null;
    readonly error_code: string;
  };
