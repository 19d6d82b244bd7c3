/**
 * Everything that can go wrong with a delivery: the closed set of codes, and
 * the one place that maps each to what the provider is told.
 *
 * The texts repeat nothing of the input and nothing of the database. What an
 * operator needs is in the log and in `failed_events`; docs/runbook.md says
 * what to do about each code.
 *
 * @module
 */

import type { LogFields } from "./log.ts";

const INVALID_SIGNATURE = { status: 401, body: "Invalid signature" };
const NOT_APPLIED = { status: 500, body: "Event could not be applied" };
const TRY_AGAIN = { status: 503, body: "Try again later" };

/** What is answered for each code. Anything but 2xx makes a provider retry. */
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

/** One of the closed set of codes. */
export type ErrorCode = keyof typeof ANSWERS;

/** A failure with its code. Its texts are for operators, never for a reply. */
export class DeliveryError extends Error {
  override name = "DeliveryError";
  /** What may stand in the log: the message, unless that may repeat the event. */
  readonly logMessage: string;
  /** What is known of the event, for the log. Empty until that is known. */
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
 * Returns the same failure with what is known of the event. It is a copy,
 * because events that share a database call may share its failure.
 */
export function withLogFields(
  error: DeliveryError,
  logFields: LogFields,
): DeliveryError {
  const { code, message, logMessage } = error;
  return new DeliveryError(code, message, {
    logMessage,
    logFields,
    cause: error,
  });
}

/**
 * What was thrown, as a {@linkcode DeliveryError}: itself, or `internal_error`
 * for anything that the code did not foresee.
 */
export function toDeliveryError(thrown: unknown): DeliveryError {
  if (thrown instanceof DeliveryError) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return new DeliveryError("internal_error", message, { cause: thrown });
}
