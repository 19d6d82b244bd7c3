/**
 * The closed set of error codes, and the only place that maps each to a status
 * and a body.
 *
 * The bodies repeat nothing from the input or the database. What an operator
 * needs is in the log and in `failed_events`; docs/runbook.md says what to do
 * for each code.
 *
 * @module
 */

import type { LogFields } from "./log.ts";

const INVALID_SIGNATURE = { status: 401, body: "Invalid signature" };
const NOT_APPLIED = { status: 500, body: "Event could not be applied" };
const TRY_AGAIN = { status: 503, body: "Try again later" };

/** The reply for each code. Any status other than 2xx makes the provider retry. */
export const ANSWERS = {
  path_unknown: { status: 404, body: "" },
  method_not_allowed: { status: 405, body: "" },
  encoding_unsupported: { status: 415, body: "" },
  body_too_large: { status: 413, body: "" },
  body_too_slow: { status: 408, body: "" },
  body_incomplete: { status: 400, body: "" },

  signature_missing: INVALID_SIGNATURE,
  signature_ambiguous: INVALID_SIGNATURE,
  signature_malformed: INVALID_SIGNATURE,
  signature_too_old: INVALID_SIGNATURE,
  signature_too_far_ahead: INVALID_SIGNATURE,
  signature_mismatch: INVALID_SIGNATURE,
  provider_misconfigured: { status: 500, body: "Receiver is not configured" },

  body_empty: { status: 400, body: "Body is empty" },
  body_not_text: { status: 400, body: "Body is not valid UTF-8" },
  body_not_json: { status: 400, body: "Body is not valid JSON" },
  event_invalid: { status: 422, body: "Event is not valid" },

  subscription_unknown: NOT_APPLIED,
  creation_pending: NOT_APPLIED,
  subscription_of_other_provider: NOT_APPLIED,
  repair_pending: NOT_APPLIED,
  apply_failed: NOT_APPLIED,
  deployment_fault: NOT_APPLIED,
  internal_error: NOT_APPLIED,

  overloaded: TRY_AGAIN,
  record_locked: TRY_AGAIN,
  database_unavailable: TRY_AGAIN,
  failure_not_recorded: TRY_AGAIN,
} as const satisfies Record<string, { status: number; body: string }>;

/** A code of the closed set. */
export type ErrorCode = keyof typeof ANSWERS;

/** A failure with its code. The texts are for operators, never for a reply. */
export class DeliveryError extends Error {
  override name = "DeliveryError";
  /** The text for the log: the message, unless that may repeat event data. */
  readonly logMessage: string;
  /** What is known about the event, for the log; empty until it is known. */
  readonly logFields: LogFields;

  constructor(
    readonly code: ErrorCode,
    message: string,
    { logMessage = message, logFields = {}, ...options }: ErrorOptions & {
      logMessage?: string;
      logFields?: LogFields;
    } = {},
  ) {
    super(message, options);
    this.logMessage = logMessage;
    this.logFields = logFields;
  }
}

/**
 * Returns a copy of a failure with what is known about the event. It must be a
 * copy: events that share a database call may share its failure.
 */
export function withLogFields(
  error: DeliveryError,
  logFields: LogFields,
): DeliveryError {
  const { code, message, logMessage } = error;
  const options = { logMessage, logFields, cause: error };
  return new DeliveryError(code, message, options);
}

/**
 * Returns what was thrown as a {@linkcode DeliveryError}; anything that is not
 * one becomes `internal_error`.
 */
export function toDeliveryError(thrown: unknown): DeliveryError {
  if (thrown instanceof DeliveryError) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return new DeliveryError("internal_error", message, { cause: thrown });
}

/** What a code means to an operator, and what to do about it, in plain text. */
export interface Guidance {
  readonly means: string;
  readonly todo: string;
}

const NOT_EVENTS =
  "Look at the payload: something other than events is sent to this endpoint. Stop that, then resolve the failure by hand.";
const DATABASE_LOAD =
  'Nothing: the provider retries. If there are many, look at the database\'s load and at its locks: docs/runbook.md, "Locks".';

/** Each code for operators. docs/runbook.md has the steps. */
export const GUIDE: Readonly<Record<ErrorCode, Guidance>> = {
  path_unknown: {
    means: "the path is not the receiver's",
    todo: "Correct the URL that is registered at the provider.",
  },
  method_not_allowed: {
    means: "the request is not a POST",
    todo: "Correct the URL that is registered at the provider.",
  },
  encoding_unsupported: {
    means: "something in front of the function compresses the body",
    todo: "Switch that off.",
  },
  body_too_large: {
    means:
      "the body is over MAX_BODY_BYTES, or a stored payload is over 16 MiB as JSON text, which no worker can retry",
    todo: "Shorten the payload, or raise MAX_BODY_BYTES.",
  },
  body_too_slow: {
    means: "the body did not arrive in time",
    todo: "Nothing: the connection is bad, or it is an attack.",
  },
  body_incomplete: {
    means: "the connection ended before the body did",
    todo: "Nothing: the connection is bad, or it is an attack.",
  },
  signature_missing: {
    means: "the configured signature header is missing",
    todo:
      "For Stripe, set PROVIDER_A_SIGNATURE_HEADER to stripe-signature. If the provider did not send it, do nothing: scanners find every public URL.",
  },
  signature_ambiguous: {
    means: "it has the signature headers of both providers",
    todo: "Nothing: no provider sends both.",
  },
  signature_malformed: {
    means: "the signature header does not fit the provider's scheme",
    todo: "Correct PROVIDER_A_SIGNATURE_SCHEME, or that of provider B.",
  },
  signature_too_old: {
    means: "a clock is wrong, or deliveries wait in a queue",
    todo: "If the queue is intended, raise SIGNATURE_TOLERANCE_SECONDS.",
  },
  signature_too_far_ahead: {
    means: "a clock is wrong",
    todo: "Set the clock of the signing machine.",
  },
  signature_mismatch: {
    means:
      "the signing secret is not this endpoint's, or something changes the body on its way",
    todo:
      "Copy the secret from the provider's endpoint page, and set it with supabase secrets set.",
  },
  provider_misconfigured: {
    means:
      "the provider's secret is missing, weak or malformed, or another setting of the provider is wrong",
    todo:
      "Set the variable that the log names with supabase secrets set. New processes have it within 400 seconds.",
  },
  body_empty: {
    means: "the body was signed and empty",
    todo: NOT_EVENTS,
  },
  body_not_text: {
    means: "the body was signed, but is not UTF-8; it is stored as base64",
    todo: NOT_EVENTS,
  },
  body_not_json: {
    means: "the body was signed, but is not JSON",
    todo: NOT_EVENTS,
  },
  event_invalid: {
    means:
      "a required field is missing or bad, or no account is known; the error names it",
    todo:
      'Repair the payload and retry. If there are many, the provider has moved a field: docs/runbook.md, "A moved field".',
  },
  subscription_unknown: {
    means: "no customer.subscription.created of this subscription was applied",
    todo:
      "If that event is an open failure too, which is usual, fix it and retry all. If not, the subscription is older than this service, or the event was lost: docs/reconcile.md.",
  },
  creation_pending: {
    means:
      "no creation of this subscription was applied, but the event's customer has an account, so the creation would apply",
    todo:
      "If the creation is an open failure too, retry all. If not, the event was lost: docs/reconcile.md.",
  },
  subscription_of_other_provider: {
    means: "the record was created by your other provider, A or B",
    todo:
      "Two providers use the same ID, or one provider is configured twice: compare the provider here and in billing.subscriptions, then resolve by hand.",
  },
  repair_pending: {
    means: "the payload was repaired, and the provider sent the old one again",
    todo:
      "Retry the event. To go back to what was received, put original_payload into payload, and retry that.",
  },
  apply_failed: {
    means:
      "Postgres, or a trigger or constraint of your app, refused the data; the error says why",
    todo:
      'If the error is your app\'s, see docs/runbook.md, "Triggers of your app". If the data is wrong, repair the payload. If neither, it is a bug here: keep the failure, and report it.',
  },
  deployment_fault: {
    means:
      "a function, a table, a column or a right is missing in the database; the error says which",
    todo:
      "If it is your app's, see docs/runbook.md, \"Triggers of your app\". If not, run supabase db push --remote, then in the SQL editor: notify pgrst, 'reload schema'; then retry all with this code.",
  },
  internal_error: {
    means: "an error in the function that nobody expected",
    todo:
      "The log has the message. Keep the failure, and report it as a bug here.",
  },
  overloaded: {
    means:
      "more events wait for the database than the function holds, or this one waited for 3 s",
    todo: DATABASE_LOAD,
  },
  record_locked: {
    means: "another session had the subscription locked for about a second",
    todo:
      'Nothing: the provider retries. If there are many, find the session that holds the lock, and end it: docs/runbook.md, "Locks".',
  },
  database_unavailable: {
    means:
      "the database did not answer in time or was full; the failure was stored later",
    todo: DATABASE_LOAD,
  },
  failure_not_recorded: {
    means: "the event failed, and could not be stored either",
    todo:
      "If the database is down, fix that first: see in the dashboard whether the project is paused or unhealthy. The provider's retry brings the event again.",
  },
};
