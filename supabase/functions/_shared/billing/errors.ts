/**
 * The closed set of error codes, and the only place that maps each to a status,
 * a body and advice.
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

const SEND_AGAIN = "send it again";
const SEND_JSON = "the sender must send the event as it is, as JSON";
const CREATE_FIRST = "send its creation first; this event applies on retry";

/**
 * What to do next, for a developer who sends events to the local stack. Null if
 * the failure's own message says it.
 */
export const ADVICE: Readonly<Record<ErrorCode, string | null>> = {
  path_unknown: "the path is /functions/v1/billing-webhook",
  method_not_allowed: "send it with POST",
  encoding_unsupported: "send it without Content-Encoding",
  body_too_large: "raise MAX_BODY_BYTES if the event is real",
  body_too_slow: SEND_AGAIN,
  body_incomplete: SEND_AGAIN,

  signature_missing: "set PROVIDER_A_SIGNATURE_HEADER to the sender's header",
  signature_ambiguous: "send the header of one provider only",
  signature_malformed: "set PROVIDER_A_SIGNATURE_SCHEME to the sender's",
  signature_too_old: "check both clocks, and sign it again",
  signature_too_far_ahead: "check both clocks, and sign it again",
  signature_mismatch: "do both sides use the same PROVIDER_A_SIGNING_SECRET?",
  provider_misconfigured: null,

  body_empty: SEND_JSON,
  body_not_text: SEND_JSON,
  body_not_json: SEND_JSON,
  event_invalid: null,

  subscription_unknown: CREATE_FIRST,
  creation_pending: CREATE_FIRST,
  subscription_of_other_provider: "send it from the one that created it",
  repair_pending: "select billing.retry_failed_event('<event id>');",
  apply_failed: "select error, payload from billing.failed_events;",
  deployment_fault: null,
  internal_error: null,

  overloaded: SEND_AGAIN,
  record_locked: "another session locks the record; send it again",
  database_unavailable: "the database does not answer; send it again",
  failure_not_recorded: "nothing was stored; send it again",
};

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
