/**
 * The error codes. Replies repeat nothing from the input or the database. Terminals show
 * only the first sentence of `todo`.
 */
import type { LogFields } from "./log.ts";

const SEND_AGAIN = "Send it again; a provider does so by itself.";
const SEND_JSON =
  "Send the event as JSON. Stop what sends anything else here, and resolve the row.";
const APPLY_CREATION =
  "Apply its creation first. If that has failed, fix it: this event is then retried. If it never arrived, reconcile.";
const COMPARE_CLOCKS =
  "Compare both clocks. If a queue stands in front of the function, raise SIGNATURE_TOLERANCE_SECONDS.";

function codesWithReply<Code extends string>(
  status: number,
  body: string,
  codes: Record<Code, readonly [means: string, todo: string]>,
): Record<
  Code,
  Readonly<{ status: number; body: string; means: string; todo: string }>
> {
  const entries = Object.entries<readonly [string, string]>(codes)
    .map(([code, [means, todo]]) => [code, { status, body, means, todo }]);
  return Object.fromEntries(entries);
}

export const ERRORS = {
  ...codesWithReply(404, "", {
    path_unknown: [
      "the URL has another path",
      "Correct the URL at the provider: its path is /functions/v1/billing-webhook.",
    ],
  }),
  ...codesWithReply(405, "", {
    method_not_allowed: [
      "the method is not POST",
      "Send it with POST. Correct the URL at the provider.",
    ],
  }),
  ...codesWithReply(415, "", {
    encoding_unsupported: [
      "the body is compressed, so it is not what was signed",
      "Send it without Content-Encoding. Switch compression off in front of the function.",
    ],
  }),
  ...codesWithReply(413, "", {
    body_too_large: [
      "the body is over MAX_BODY_BYTES",
      "If the event is real, raise MAX_BODY_BYTES.",
    ],
  }),
  ...codesWithReply(408, "", {
    body_too_slow: [
      "the body took more than 10 s: a bad connection, or an attack",
      SEND_AGAIN,
    ],
  }),
  ...codesWithReply(400, "", {
    body_incomplete: ["the connection broke within the body", SEND_AGAIN],
  }),
  ...codesWithReply(401, "Invalid signature", {
    signature_missing: [
      "the request has no configured signature header; scanners send none",
      "Set PROVIDER_A_FORMAT to the sender's format, or PROVIDER_A_SIGNATURE_HEADER to its header.",
    ],
    signature_ambiguous: [
      "the request has several signature headers, or those of both providers",
      "Send one signature header, of one provider.",
    ],
    signature_malformed: [
      "the header does not have the form of the provider's scheme",
      "Set PROVIDER_A_SIGNATURE_SCHEME to the sender's scheme.",
    ],
    signature_too_old: [
      "it was signed more than SIGNATURE_TOLERANCE_SECONDS ago",
      COMPARE_CLOCKS,
    ],
    signature_too_far_ahead: [
      "the time of its signature is in the future",
      COMPARE_CLOCKS,
    ],
    signature_mismatch: [
      "no configured secret made this signature, or the body was changed on its way",
      "Set PROVIDER_A_SIGNING_SECRET to the secret on the provider's endpoint page. The doctor checks it.",
    ],
  }),
  ...codesWithReply(500, "Receiver is not configured", {
    provider_misconfigured: [
      "a setting of the provider is missing, weak or malformed; the log names it",
      "Correct that setting. It takes effect in new processes, within 400 seconds.",
    ],
  }),
  ...codesWithReply(400, "Body is empty", {
    body_empty: ["the body was signed, but is empty", SEND_JSON],
  }),
  ...codesWithReply(400, "Body is not valid UTF-8", {
    body_not_text: [
      "the body was signed, but is not UTF-8; payload holds it as base64",
      SEND_JSON,
    ],
  }),
  ...codesWithReply(400, "Body is not valid JSON", {
    body_not_json: ["the body was signed, but is not JSON", SEND_JSON],
  }),
  ...codesWithReply(422, "Event is not valid", {
    event_invalid: [
      "a field is missing or malformed; the error names it",
      "Repair the payload, and retry it. If many have the same error, the provider has moved a field.",
    ],
    account_unknown: [
      "the places that the error names have no account ID, and the customer's account is unknown",
      "Add the account to the payload and retry it, or add its customer to billing.customers. Set it at the provider too.",
    ],
  }),
  ...codesWithReply(500, "Event could not be applied", {
    subscription_unknown: [
      "no creation of this subscription was applied",
      APPLY_CREATION,
    ],
    creation_pending: [
      "no creation of this subscription was applied; its customer's account is known",
      APPLY_CREATION,
    ],
    subscription_of_other_provider: [
      "the record was created by your other provider",
      "Send it as the provider that created it. If both are the same provider, or use the same ID, resolve it by hand.",
    ],
    repair_pending: [
      "its payload was repaired, and the provider sent the old one again",
      "Retry it with billing.retry_failed_event. To go back to what was received, put original_payload into payload first.",
    ],
    apply_failed: [
      "Postgres, or a handler, trigger or constraint of your app, refused the data; the error says why",
      "Correct your app's handler or trigger, or repair the payload, and retry. A trigger must name schemas: its search_path is empty. If it is neither, keep the row and report it.",
    ],
    handler_missing: [
      "the function of a type in HANDLE_EVENT_TYPES is missing or may not be called; the error says which",
      "Create that function: docs/handlers.md. Or remove the type from HANDLE_EVENT_TYPES, and resolve the row.",
    ],
    no_longer_handled: [
      "a setting has changed since it was stored; the error names it",
      "Correct that setting, and retry all with this code. If they are not needed, resolve them.",
    ],
    deployment_fault: [
      "a setting is malformed, or the database lacks something; the error says which",
      "Correct the setting, or apply the migration (supabase db push --remote), or restore what belongs to your app. Then retry all.",
    ],
    key_refused: [
      "the project refuses the functions' secret key",
      "Create a secret key (Project Settings, API Keys), and deploy both functions again: the default one was revoked.",
    ],
    internal_error: [
      "an unexpected error in the function",
      "Read the function's log. Keep the row, and report it.",
    ],
  }),
  ...codesWithReply(503, "Try again later", {
    overloaded: [
      "too many events wait for the database, or this one waited for 3 s, or 5 s for a handler",
      `${SEND_AGAIN} If there are many, look at the database's load.`,
    ],
    record_locked: [
      "another session has locked the subscription's record",
      `${SEND_AGAIN} If there are many, end the session that holds the lock.`,
    ],
    database_unavailable: [
      "the database did not answer in time, or was full",
      `${SEND_AGAIN} If there are many, look at the database's load and locks.`,
    ],
    failure_not_recorded: [
      "the event failed and could not be stored; the log has its ID and its body's hash",
      `${SEND_AGAIN} If the database is down, bring it back first.`,
    ],
  }),
};

export type ErrorCode = keyof typeof ERRORS;

/**
 * A failure with its code. The texts are for operators, never for a reply; by default, the
 * meaning of the code.
 */
export class DeliveryError extends Error {
  override name = "DeliveryError";
  /** The text for the log: the message, unless that may repeat event data. */
  readonly logMessage: string;
  readonly logFields: LogFields;
  /** The code with which the database refused the event, if it did. */
  readonly sqlState: string | undefined;

  constructor(
    readonly code: ErrorCode,
    message: string = ERRORS[code].means,
    { logMessage = message, logFields = {}, sqlState, ...options }:
      & Partial<Pick<DeliveryError, "logMessage" | "logFields" | "sqlState">>
      & ErrorOptions = {},
  ) {
    super(message, options);
    this.logMessage = logMessage;
    this.logFields = logFields;
    this.sqlState = sqlState;
  }

  /** Whether a database call took too long. */
  get isTimeout(): boolean {
    return this.cause instanceof DOMException;
  }
}

/** Returns a copy, because events that share a database call may share its failure. */
export function withLogFields(
  error: DeliveryError,
  logFields: LogFields,
): DeliveryError {
  const { code, message, logMessage, sqlState } = error;
  const options = { logMessage, logFields, sqlState, cause: error };
  return new DeliveryError(code, message, options);
}

export function toDeliveryError(thrown: unknown): DeliveryError {
  if (thrown instanceof DeliveryError) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return new DeliveryError("internal_error", message, { cause: thrown });
}
