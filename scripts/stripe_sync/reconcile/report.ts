import type { Difference } from "../difference.ts";

/** What is to be done where `--apply` does not do it. */
const ADVICE: Partial<Record<Difference["kind"], string>> = {
  unmapped:
    "no account: set metadata.accountId at Stripe, or --account-from; if they are not yours to record, see UNMAPPED_SUBSCRIPTIONS",
  unreadable: "unreadable: nothing is changed here; look at it at Stripe",
  missing_there:
    "missing there: nothing is deleted here; is STRIPE_API_KEY of the right account? docs/reconcile.md says more",
  failed:
    "failed: what Stripe still has is tried again by --apply; for the rest see docs/runbook.md",
};

/** Returns a difference as one line. */
export function differenceLine(difference: Difference): string {
  switch (difference.kind) {
    case "missing_here":
      return `missing here   ${difference.subscription}, of account ${difference.account}`;
    case "unmapped":
      return `no account     ${difference.subscription}, of customer ${difference.customer}`;
    case "unreadable":
      return `unreadable     ${difference.subscription}: ${difference.error}`;
    case "missing_there":
      return `missing there  ${difference.subscription}`;
    case "differs":
      return `differs        ${difference.subscription}: ${
        difference.fields.map(({ field, here, there }) =>
          `${field} is ${here} here, ${there} there`
        ).join("; ")
      }`;
    case "undelivered":
      return `undelivered    ${difference.event}, ${difference.type} of ${difference.subscription}`;
    case "failed":
      return `failed         ${difference.event}, ${difference.type} of ${difference.subscription}: ${difference.error_code}`;
  }
}

/** Returns all differences, one line each, and then what to do. */
export function differenceLines(differences: readonly Difference[]): string[] {
  if (differences.length === 0) return ["Nothing differs."];
  const kinds = new Set(differences.map(({ kind }) => kind));
  return [
    ...differences.map(differenceLine),
    differences.length === 1
      ? "1 difference."
      : `${differences.length} differences.`,
    ...Object.entries(ADVICE)
      .filter(([kind]) => kinds.has(kind as Difference["kind"]))
      .map(([, advice]) => advice),
  ];
}
