/**
 * The closed set of error codes, and the only place that says of each: the reply,
 * what it means, and what to do.
 *
 * The bodies repeat nothing from the input or the database. What an operator
 * needs is in the log and in `failed_events`. Of `todo`, the live view shows the
 * first sentence; the console and docs/operate.md show all.
 */

import type { LogFields } from "./log.ts";

interface ErrorEntry {
  readonly status: number;
  readonly body: string;
  readonly means: string;
  readonly todo: string;
}

const BY_ITSELF = "Send it again; a provider does.";
const NOT_AN_EVENT =
  "Send the event as JSON. Stop what sends anything else here, and resolve the row.";
const CREATION =
  "Apply its creation first. If that has failed, fix it: this is retried then. If it never arrived, reconcile.";
const CLOCKS =
  "Compare both clocks. If a queue stands in front of the function, raise SIGNATURE_TOLERANCE_SECONDS.";

const INVALID_SIGNATURE = { status: 401, body: "Invalid signature" };
const NOT_APPLIED = { status: 500, body: "Event could not be applied" };
const TRY_AGAIN = { status: 503, body: "Try again later" };

/** Any status other than 2xx makes the provider retry. */
export const ERRORS = {
  path_unknown: {
    status: 404,
    body: "",
    means: "the URL has another path",
    todo:
      "Correct the URL at the provider: its path is /functions/v1/billing-webhook.",
  },
  method_not_allowed: {
    status: 405,
    body: "",
    means: "the method is not POST",
    todo: "Send it with POST. Correct the URL at the provider.",
  },
  encoding_unsupported: {
    status: 415,
    body: "",
    means: "the body is compressed, so it is not what was signed",
    todo:
      "Send it without Content-Encoding. Switch compression off in front of the function.",
  },
  body_too_large: {
    status: 413,
    body: "",
    means: "the body is over MAX_BODY_BYTES",
    todo: "If the event is real, raise MAX_BODY_BYTES.",
  },
  body_too_slow: {
    status: 408,
    body: "",
    means: "the body took more than 10 s: a bad connection, or an attack",
    todo: BY_ITSELF,
  },
  body_incomplete: {
    status: 400,
    body: "",
    means: "the connection broke within the body",
    todo: BY_ITSELF,
  },

  signature_missing: {
    ...INVALID_SIGNATURE,
    means: "no configured signature header is there; scanners send none",
    todo:
      "Set PROVIDER_A_SIGNATURE_HEADER to the sender's header, such as stripe-signature.",
  },
  signature_ambiguous: {
    ...INVALID_SIGNATURE,
    means: "it has several signature headers, or those of both providers",
    todo: "Send one signature header, of one provider.",
  },
  signature_malformed: {
    ...INVALID_SIGNATURE,
    means: "the header does not have the form of the provider's scheme",
    todo: "Set PROVIDER_A_SIGNATURE_SCHEME to the sender's scheme.",
  },
  signature_too_old: {
    ...INVALID_SIGNATURE,
    means: "it was signed longer ago than SIGNATURE_TOLERANCE_SECONDS",
    todo: CLOCKS,
  },
  signature_too_far_ahead: {
    ...INVALID_SIGNATURE,
    means: "the time of its signature has yet to come",
    todo: CLOCKS,
  },
  signature_mismatch: {
    ...INVALID_SIGNATURE,
    means:
      "no configured secret made this signature, or the body was changed on its way",
    todo:
      "Set PROVIDER_A_SIGNING_SECRET to the secret on the provider's endpoint page. The doctor checks it.",
  },
  provider_misconfigured: {
    status: 500,
    body: "Receiver is not configured",
    means:
      "a setting of the provider is missing, weak or malformed; the log names it",
    todo:
      "Correct that setting. It takes effect in new processes, within 400 seconds.",
  },

  body_empty: {
    status: 400,
    body: "Body is empty",
    means: "the body was signed and is empty",
    todo: NOT_AN_EVENT,
  },
  body_not_text: {
    status: 400,
    body: "Body is not valid UTF-8",
    means: "the body was signed, but is not UTF-8; payload holds it as base64",
    todo: NOT_AN_EVENT,
  },
  body_not_json: {
    status: 400,
    body: "Body is not valid JSON",
    means: "the body was signed, but is not JSON",
    todo: NOT_AN_EVENT,
  },
  event_invalid: {
    status: 422,
    body: "Event is not valid",
    means:
      "a field is missing or bad, or no account is known; the error names it",
    todo:
      "Repair the payload, and retry it. If many have the same error, the provider has moved a field.",
  },

  subscription_unknown: {
    ...NOT_APPLIED,
    means: "no creation of this subscription was applied",
    todo: CREATION,
  },
  creation_pending: {
    ...NOT_APPLIED,
    means:
      "no creation of this subscription was applied; its customer's account is known",
    todo: CREATION,
  },
  subscription_of_other_provider: {
    ...NOT_APPLIED,
    means: "the record was created by your other provider",
    todo:
      "Send it as the provider that created it. If both are one provider, or use one ID, resolve it by hand.",
  },
  repair_pending: {
    ...NOT_APPLIED,
    means: "its payload was repaired, and the provider sent the old one again",
    todo:
      "Retry it with billing.retry_failed_event. To go back to what was received, put original_payload into payload first.",
  },
  apply_failed: {
    ...NOT_APPLIED,
    means:
      "Postgres, or a handler, trigger or constraint of your app, refused the data; the error says why",
    todo:
      "Correct your app's handler or trigger, or repair the payload, and retry. If it is neither, keep the row and report it.",
  },
  handler_missing: {
    ...NOT_APPLIED,
    means:
      "the function of a type in HANDLE_EVENT_TYPES is missing or may not be called; the error says which",
    todo:
      "Create that function: docs/handlers.md. Or take the type out of HANDLE_EVENT_TYPES.",
  },
  deployment_fault: {
    ...NOT_APPLIED,
    means:
      "the database lacks a function, table, column or right; the error says which",
    todo:
      "Apply the migration: supabase db push. Restore what is your app's. Then retry all with this code.",
  },
  key_refused: {
    ...NOT_APPLIED,
    means: "the project refuses the functions' secret key",
    todo:
      "Create a secret key (Project Settings, API Keys), and deploy both functions again: the default one was revoked.",
  },
  internal_error: {
    ...NOT_APPLIED,
    means: "an error in the function that nobody expected",
    todo: "Read the function's log. Keep the row, and report it.",
  },

  overloaded: {
    ...TRY_AGAIN,
    means:
      "too many events wait for the database, or this one waited for 3 s, or 5 s for a handler",
    todo: `${BY_ITSELF} If there are many, look at the database's load.`,
  },
  record_locked: {
    ...TRY_AGAIN,
    means: "another session has locked the subscription's record",
    todo:
      `${BY_ITSELF} If there are many, find the session that holds the lock, and end it.`,
  },
  database_unavailable: {
    ...TRY_AGAIN,
    means: "the database did not answer in time, or was full",
    todo:
      `${BY_ITSELF} If there are many, look at the database's load and locks.`,
  },
  failure_not_recorded: {
    ...TRY_AGAIN,
    means:
      "it failed and could not be stored either; the log has its ID and its body's hash",
    todo: `${BY_ITSELF} If the database is down, bring it back first.`,
  },
} as const satisfies Record<string, ErrorEntry>;

/** A code of the closed set. */
export type ErrorCode = keyof typeof ERRORS;

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
