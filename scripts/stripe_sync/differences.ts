/**
 * The differences between Stripe and the tables, and how they are shown. As a
 * program, it turns the document of `reconcile --json` on standard input into
 * the Markdown that a workflow run shows. The argument is the repository's
 * visibility.
 */
import { print } from "../common/print.ts";

/** The value of a field; times as in ISO 8601. */
export type FieldValue = string | number | boolean | null;

/** A field with one value in the record and another one at Stripe. */
export interface FieldDifference {
  readonly field: string;
  readonly here: FieldValue;
  readonly there: FieldValue;
}

/** A difference between Stripe and the tables. `--json` prints it as it is. */
export interface Difference {
  readonly kind:
    | "missing_here"
    /** Missing here, and nobody says whose it is. */
    | "unmapped"
    /** Missing here, because its account was erased: no fault. */
    | "erased"
    /** Stripe's subscription lacks a field that is needed. */
    | "unreadable"
    | "differs"
    | "missing_there"
    /** An event that was never acknowledged, and is not in the tables either. */
    | "undelivered"
    /** An open row of `billing.failed_events`. */
    | "failed";
  /** Null if an event does not name one. */
  readonly subscription: string | null;
  /** Of a subscription that is missing here. */
  readonly account?: string;
  /** Of one that is unmapped. */
  readonly customer?: string;
  /** Why it is unreadable. */
  readonly error?: string;
  /** The fields that differ. */
  readonly fields?: readonly FieldDifference[];
  /** Of an event, with its type. */
  readonly event?: string;
  readonly type?: string | null;
  /** Why the event failed. */
  readonly error_code?: string;
}

/** What to do by hand about some kinds. */
const ADVICE: { [Kind in Difference["kind"]]?: string } = {
  unmapped:
    "no account: set metadata.accountId at Stripe and run this again, or use --account-from <metadata key> or --account-from customer. For subscriptions of another product, set UNMAPPED_SUBSCRIPTIONS=ignore (docs/reconcile.md).",
  unreadable:
    "unreadable: --apply changes nothing. Check the subscription at Stripe.",
  missing_there:
    "missing there: --apply deletes nothing. Check that STRIPE_API_KEY belongs to the right account, and see docs/reconcile.md.",
  failed:
    "failed: --apply applies the events that Stripe lists as undelivered. For the others, see docs/runbook.md.",
};

const LABELS: { [Kind in Difference["kind"]]?: string } = {
  unmapped: "no account",
  erased: "erased: skipped ",
};

const MOST_IN_SUMMARY = 20;

if (import.meta.main) {
  const { differences } = await new Response(Deno.stdin.readable).json();
  print(...summary(differences, { visibility: Deno.args[0] }));
}

/** Returns whether something is to be done about a difference. */
export function isFault({ kind }: Difference): boolean {
  return kind !== "erased";
}

/**
 * Returns all differences, one line each, and then what to do.
 *
 * @param options.apply Whether the command ran with `--apply`.
 */
export function differenceLines(
  differences: readonly Difference[],
  { apply }: { apply: boolean },
): string[] {
  const { length } = differences.filter(isFault);
  if (length === 0) {
    return [...differences.map(differenceLine), "No differences."];
  }
  const count = length === 1 ? "1 difference." : `${length} differences.`;
  const hint = " --apply fixes what it can, and deletes nothing.";
  return [
    ...differences.map(differenceLine),
    apply ? count : count + hint,
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
  const { kind, subscription, account, customer, event, type } = difference;
  const label = LABELS[kind] ?? kind.replace("_", " ");
  const subject = event === undefined
    ? subscription
    : `${event}, ${type ?? "type unknown"}, subscription ${
      subscription ?? "unknown"
    }`;
  const owner = account ? `, account ${account}` : "";
  const nobody = customer ? `, customer ${customer}` : "";
  const fields = difference.fields?.map(({ field, here, there }) =>
    `${field} is ${here} here, ${there} at Stripe`
  );
  const reason = difference.error ?? difference.error_code ??
    fields?.join("; ");
  return label.padEnd(15) + subject + owner + nobody +
    (reason ? `: ${reason}` : "");
}

/**
 * Returns how many differences there are of each kind, and the first of them.
 * They name subscriptions, customers and accounts, and anybody can read the runs
 * of a public repository: so there only the numbers are returned.
 *
 * @param options.visibility As GitHub names it: `private`, `internal` or `public`.
 */
export function summary(
  differences: readonly Difference[],
  { visibility }: { visibility: string | undefined },
): string[] {
  const kinds = Map.groupBy(differences, ({ kind }) => kind);
  const listed = visibility === "private"
    ? differences.slice(0, MOST_IN_SUMMARY)
    : [];
  return [
    "| Difference | Count |",
    "| --- | --- |",
    ...kinds.entries().map(([kind, { length }]) =>
      `| \`${kind}\` | ${length} |`
    ),
    "",
    // Indented text is shown as it is, whatever an ID contains.
    ...listed.map((difference) => `    ${differenceLine(difference)}`),
    "",
    "What each kind means, and how to fix it: docs/reconcile.md.",
  ];
}
