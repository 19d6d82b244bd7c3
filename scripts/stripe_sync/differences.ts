/** The value of a field. Times are in ISO 8601. */
export type FieldValue = string | number | boolean | null;

export interface FieldDifference {
  readonly field: string;
  readonly here: FieldValue;
  readonly there: FieldValue;
}

/** A difference between Stripe and the tables. `--json` prints it as it is. */
export interface Difference {
  readonly kind:
    | "missing_here"
    /** Missing here, and its account is unknown. */
    | "unmapped"
    /** Missing here, because its account was erased: no fault. */
    | "erased"
    | "unreadable"
    | "differs"
    | "missing_there"
    /** An event that was never acknowledged, and is not in the tables either. */
    | "undelivered"
    /** An open row of `billing.failed_events`. */
    | "failed";
  /** Null if an event does not name one. */
  readonly subscription: string | null;
  /** If the subscription is missing here. */
  readonly account?: string;
  readonly customer?: string;
  readonly error?: string;
  readonly fields?: readonly FieldDifference[];
  readonly event?: string;
  readonly type?: string | null;
  readonly error_code?: string;
}

/** On differences that have to be solved by hand. */
const ADVICE: { [Kind in Difference["kind"]]?: string } = {
  unmapped:
    "no account: set metadata.accountId at Stripe, add the customer to billing.customers, or use --account-from, and run this again. For subscriptions of another product, set UNMAPPED_SUBSCRIPTIONS=ignore (docs/reconcile.md).",
  unreadable:
    "unreadable: --apply changes nothing. Check the subscription at Stripe.",
  missing_there:
    "missing there: --apply deletes nothing. Check that STRIPE_API_KEY belongs to the right account, and see docs/reconcile.md.",
  failed:
    "failed: --apply applies the events that Stripe lists as undelivered. For the others, see docs/operate.md.",
};

const LABELS: { [Kind in Difference["kind"]]?: string } = {
  unmapped: "no account",
  erased: "erased: skipped ",
};

export function isFault({ kind }: Difference): boolean {
  return kind !== "erased";
}

export function differenceLines(
  differences: readonly Difference[],
  { apply }: { apply: boolean },
): string[] {
  const lines = differences.map(differenceLine);
  const { length } = differences.filter(isFault);
  if (length === 0) return [...lines, "No differences."];

  const count = length === 1 ? "1 difference." : `${length} differences.`;
  const hint = " --apply fixes what it can, and deletes nothing.";
  return [
    ...lines,
    apply ? count : count + hint,
    ...adviceLines(differences),
  ];
}

export function adviceLines(differences: readonly Difference[]): string[] {
  const kinds = new Set<string>(differences.map(({ kind }) => kind));
  return Object.entries(ADVICE)
    .filter(([kind]) => kinds.has(kind))
    .map(([, advice]) => advice);
}

export function differenceLine(difference: Difference): string {
  const { kind, subscription, account, customer, event, type } = difference;
  const label = LABELS[kind] ?? kind.replace("_", " ");
  const subject = event === undefined
    ? subscription
    : `${event}, ${type ?? "type unknown"}, subscription ${
      subscription ?? "unknown"
    }`;
  const owner = account ? `, account ${account}` : "";
  const payer = customer ? `, customer ${customer}` : "";

  const fields = difference.fields?.map(({ field, here, there }) =>
    `${field} is ${here} here, ${there} at Stripe`
  );
  const reason = difference.error ?? difference.error_code ??
    fields?.join("; ");
  return label.padEnd(15) + subject + owner + payer +
    (reason ? `: ${reason}` : "");
}
