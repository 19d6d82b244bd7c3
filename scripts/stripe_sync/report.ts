import type { Difference } from "./difference.ts";
import type { FieldDifference } from "./field_differences.ts";

/** The kinds that `reconcile --apply` fixes, if it can. */
const FIXABLE = new Set<Difference["kind"]>([
  "missing_here",
  "differs",
  "undelivered",
  "failed",
]);

/** What to do about the others. */
const ADVICE: Partial<Record<Difference["kind"], string>> = {
  unmapped:
    "no account: set metadata.accountId at Stripe and run this again, or use --account-from <metadata key> or --account-from customer. For subscriptions of another product, set UNMAPPED_SUBSCRIPTIONS=ignore (docs/reconcile.md).",
  unreadable:
    "unreadable: --apply changes nothing. Check the subscription at Stripe.",
  missing_there:
    "missing there: --apply deletes nothing. Check that STRIPE_API_KEY belongs to the right account, and see docs/reconcile.md.",
  failed:
    "failed: --apply applies the events that Stripe lists as undelivered. For the others, see docs/runbook.md.",
};

/**
 * Returns all differences, one line each, and then what to do.
 *
 * @param options.apply Whether the command ran with `--apply`.
 */
export function differenceLines(
  differences: readonly Difference[],
  { apply }: { apply: boolean },
): string[] {
  if (differences.length === 0) return ["No differences."];
  const count = differences.length === 1
    ? "1 difference."
    : `${differences.length} differences.`;
  const isFixable = differences.some(({ kind }) => FIXABLE.has(kind));
  return [
    ...differences.map(differenceLine),
    apply || !isFixable
      ? count
      : `${count} --apply fixes what it can, and deletes nothing.`,
    ...adviceLines(differences),
  ];
}

/** Returns what to do by hand, once per kind of difference. */
export function adviceLines(differences: readonly Difference[]): string[] {
  const kinds = new Set<string>(differences.map(({ kind }) => kind));
  return Object.entries(ADVICE)
    .filter(([kind]) => kinds.has(kind))
    .map(([, advice]) => advice);
}

/** Returns a difference as one line. */
export function differenceLine(difference: Difference): string {
  switch (difference.kind) {
    case "missing_here":
      return `missing here   ${difference.subscription}, account ${difference.account}`;
    case "unmapped":
      return `no account     ${difference.subscription}, customer ${difference.customer}`;
    case "unreadable":
      return `unreadable     ${difference.subscription}: ${difference.error}`;
    case "missing_there":
      return `missing there  ${difference.subscription}`;
    case "differs":
      return `differs        ${difference.subscription}: ${
        fieldsText(difference.fields)
      }`;
    case "undelivered":
      return `undelivered    ${eventText(difference)}`;
    case "failed":
      return `failed         ${
        eventText(difference)
      }: ${difference.error_code}`;
  }
}

function fieldsText(fields: readonly FieldDifference[]): string {
  return fields.map(({ field, here, there }) =>
    `${field} is ${here} here, ${there} at Stripe`
  ).join("; ");
}

function eventText({ event, type, subscription }: {
  readonly event: string;
  readonly type: string | null;
  readonly subscription: string | null;
}): string {
  return `${event}, ${type ?? "type unknown"}, subscription ${
    subscription ?? "unknown"
  }`;
}
