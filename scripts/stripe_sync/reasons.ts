/** Why steps of a rehearsal did not hold, and what to do. */
import type Stripe from "stripe";
import { ERRORS } from "../../supabase/functions/_shared/billing/errors.ts";
import { settingsPrefix } from "../../supabase/functions/_shared/billing/settings/providers.ts";
import { asTyped } from "../common/how_started.ts";
import { nextStep } from "../common/next_step.ts";
import type { Rows, SeenEvent, StepResult } from "./rehearsal.ts";

/** Later than this, the schedule does not wake the worker each minute. */
const RUN_MS = 5 * 60 * 1000;

/** More than the network delays an answer; a signature lasts 300 s. */
const MAX_SKEW_SECONDS = 30;

/** All that is known after the last step. */
export interface Facts {
  readonly results: readonly StepResult[];
  readonly rows: Rows;
  readonly provider: string;
  readonly account: string;
  readonly url: string;
  /** Stripe's endpoint with this URL; undefined with `stripe listen` or a tunnel. */
  readonly endpoint: Stripe.WebhookEndpoint | undefined;
  /** How many more endpoints Stripe sends the events to. */
  readonly others: number;
  /** How far the receiver's clock is ahead of this machine's. */
  readonly skewSeconds: number;
  readonly nowMs: number;
}

/** Returns one text per reason, the first of which may cause the others. */
export function reasons(facts: Facts): string[] {
  const failed = facts.results.filter(({ state }) => state === "FAIL");
  const found = failed.flatMap((result) => reasonsOf(result, facts));
  return [...new Set([...found, ...reasonsOfWorker(facts)])];
}

function reasonsOf(result: StepResult, facts: Facts): string[] {
  const { step, events, lacking, differing } = result;
  const missing = events.filter(({ outcome }) => outcome === "missing");
  const failed = events.filter(({ outcome }) => outcome === "failed");
  const found = [
    ...failed.map((event) => failureReason(event, facts)),
    ...missing.map((event) => missingReason(event, facts)),
    ...lacking.map((type) =>
      `Stripe lists no ${type} for the step "${step}". Its API may have changed: please report this.`
    ),
  ];
  if (differing.length === 0 || found.length > 0) return found;
  return [differenceReason(result, facts)];
}

function failureReason(
  { type, error_code = "", error }: SeenEvent,
  { provider }: Facts,
): string {
  const todo = nextStep(error_code, provider) ?? "docs/operate.md says more.";
  const text = (error ?? "").trim().replace(/\.$/, "");
  return `${type} failed with ${error_code}: ${text}. ${todo}`;
}

function missingReason(
  { type, pending }: SeenEvent,
  { endpoint, others, provider, skewSeconds, url }: Facts,
): string {
  const prefix = settingsPrefix(provider);
  const { enabled_events: selected = ["*"] } = endpoint ?? {};
  if (!selected.includes("*") && !selected.includes(type)) {
    return `The endpoint does not select ${type}. Select it at Stripe: docs/stripe.md, "The endpoint".`;
  }

  const ignored =
    `If the receiver's log has "event of the other mode ignored", ${prefix}MODE must be test or any.`;
  const seconds = Math.abs(skewSeconds);
  if (pending > 0 && seconds > MAX_SKEW_SECONDS) {
    const way = skewSeconds > 0 ? "ahead of" : "behind";
    return `The receiver refuses Stripe's events: its clock is ${seconds} s ${way} this machine's. ${ERRORS.signature_too_old.todo}`;
  }
  if (pending > 0) {
    const todo = ERRORS.signature_mismatch.todo
      .replace(settingsPrefix("a"), prefix);
    const reason =
      `The receiver refuses Stripe's events, and stores no failure: most likely, it has another signing secret, or another format. ${todo} Its log has the code.`;
    // Another endpoint may be the one that has not acknowledged them.
    return others > 0 ? `${reason} ${ignored}` : reason;
  }
  return endpoint
    ? `The receiver ignores Stripe's events. ${ignored}`
    : `No event arrives. Is stripe listen running, and does it forward to ${url}? ${ignored}`;
}

/** Explains what is wrong although each event was applied. */
function differenceReason(
  { step, differing, expected, account }: StepResult,
  { rows, account: name, results }: Facts,
): string {
  const [row] = rows.subscriptions;
  const look =
    "Look for a trigger of your app on billing.subscriptions, and for functions that it has replaced.";
  if (row === undefined) {
    return `After "${step}", each event was applied, but there is no record. ${look}`;
  }
  if (row.account_id !== name) {
    return `The record has the account ${row.account_id} instead of ${name}, which metadata.accountId names. ${look}`;
  }

  const values = differing.map((field) =>
    `${field} is ${JSON.stringify(account?.[field])} instead of ${
      JSON.stringify(expected[field])
    }`
  );
  const isRepeated = results.some((other) =>
    other.step !== step && other.state === "FAIL"
  );
  return `After "${step}", each event was applied, but ${values.join(", ")}. ${
    isRepeated ? "" : look
  }`.trim();
}

function reasonsOfWorker({ rows, results, nowMs }: Facts): string[] {
  const found: string[] = [];
  const { health, notifications } = rows;
  const ranAt = health?.last_scheduled_run_at;
  if (!(nowMs - Date.parse(ranAt ?? "") <= RUN_MS)) {
    found.push(
      `The schedule has ${
        ranAt ? `not woken the worker since ${ranAt}` : "never woken the worker"
      }, so failures are not retried. See the schedule: ${asTyped("doctor")}`,
    );
  }

  const hasPaymentFailed = results.some(({ events }) =>
    events.some(({ type, outcome }) =>
      type === "invoice.payment_failed" && outcome === "applied"
    )
  );
  const notified = notifications.find(({ kind }) => kind === "payment_failed");
  if (hasPaymentFailed && !notified) {
    found.push(
      "The failed payment made no notification. If that is not intended, add payment_failed to NOTIFY.",
    );
  }
  if (notified?.status === "pending" && notified.last_error !== null) {
    found.push(
      `The notification is not delivered: ${notified.last_error}. docs/operate.md, "Notifications that do not arrive".`,
    );
  }
  return found;
}
