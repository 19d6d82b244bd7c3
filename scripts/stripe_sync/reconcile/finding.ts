import type { Difference } from "../differences.ts";

/** Something that is not the same here and at the provider. */
export type Finding =
  | {
    readonly kind: "missing_here";
    readonly subscription: string;
    readonly account: string;
  }
  /** Missing here, and it belongs to no account. */
  | {
    readonly kind: "unmapped";
    readonly subscription: string;
    readonly customer: string | null;
  }
  /** The provider's lacks a field that is needed. */
  | {
    readonly kind: "unreadable";
    readonly subscription: string;
    readonly error: string;
  }
  | { readonly kind: "missing_there"; readonly subscription: string }
  | {
    readonly kind: "differs";
    readonly subscription: string;
    readonly fields: readonly Difference[];
  }
  /** Never acknowledged, and nothing is known of it here. */
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

/** What is to be done where `--apply` does not do it. */
const ADVICE: Partial<Record<Finding["kind"], string>> = {
  unmapped:
    "no account: set metadata.accountId at Stripe, or --account-from; if they are not yours to record, see UNMAPPED_SUBSCRIPTIONS",
  unreadable: "unreadable: nothing is changed here; look at it at Stripe",
  missing_there:
    "missing there: nothing is deleted here; is STRIPE_API_KEY of the right account? docs/reconcile.md says more",
  failed:
    "failed: what Stripe still has is tried again by --apply; for the rest see docs/runbook.md",
};

/** A finding as one line. */
export function findingLine(finding: Finding): string {
  switch (finding.kind) {
    case "missing_here":
      return `missing here   ${finding.subscription}, of account ${finding.account}`;
    case "unmapped":
      return `no account     ${finding.subscription}, of customer ${finding.customer}`;
    case "unreadable":
      return `unreadable     ${finding.subscription}: ${finding.error}`;
    case "missing_there":
      return `missing there  ${finding.subscription}`;
    case "differs":
      return `differs        ${finding.subscription}: ${
        finding.fields.map(({ field, here, there }) =>
          `${field} is ${here} here, ${there} there`
        ).join("; ")
      }`;
    case "undelivered":
      return `undelivered    ${finding.event}, ${finding.type} of ${finding.subscription}`;
    case "failed":
      return `failed         ${finding.event}, ${finding.type} of ${finding.subscription}: ${finding.error_code}`;
  }
}

/** All findings, a line each, with what is to be done. */
export function findingLines(findings: readonly Finding[]): string[] {
  if (findings.length === 0) return ["Nothing differs."];
  const kinds = new Set(findings.map(({ kind }) => kind));
  return [
    ...findings.map(findingLine),
    findings.length === 1 ? "1 difference." : `${findings.length} differences.`,
    ...Object.entries(ADVICE)
      .filter(([kind]) => kinds.has(kind as Finding["kind"]))
      .map(([, advice]) => advice),
  ];
}
