import type { ErrorCode } from "../../supabase/functions/_shared/billing/errors.ts";
import { settingsPrefix } from "../../supabase/functions/billing-webhook/providers.ts";
import type { Delivery } from "./read_log_line.ts";

const SEND_AGAIN = "send it again";
const SEND_JSON = "the sender must send the event as it is, as JSON";
const CREATE_FIRST = "send its creation first; this event applies on retry";

/**
 * What to do on this machine after a failure, in the words of the command line.
 * Null if the failure's own message says it.
 */
const NEXT_STEPS: Readonly<Record<ErrorCode, string | null>> = {
  path_unknown: "the path is /functions/v1/billing-webhook",
  method_not_allowed: "send it with POST",
  encoding_unsupported: "send it without Content-Encoding",
  body_too_large: "raise MAX_BODY_BYTES if the event is real",
  body_too_slow: SEND_AGAIN,
  body_incomplete: SEND_AGAIN,

  signature_missing: "set PROVIDER_A_SIGNATURE_HEADER to the sender's header",
  signature_ambiguous: "send the header of one provider only",
  signature_malformed: "does not fit PROVIDER_A_SIGNATURE_SCHEME",
  signature_too_old: "check both clocks, and sign it again",
  signature_too_far_ahead: "check both clocks, and sign it again",
  signature_mismatch: "secrets differ: check PROVIDER_A_SIGNING_SECRET",
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

const RESTART = "a restart of start applies the migration";

/**
 * What a database without the receiver's migration leads to: the API does not
 * know what the functions call. No restart brings anything else back, such as a
 * table that a trigger of the app uses.
 */
const LACKS_MIGRATION = /PGRST20\d/;

/** Returns what failed and what to do about it, in one line. */
export function nextStep({ code, error = "", provider }: Delivery): string {
  const step = code === "deployment_fault" && LACKS_MIGRATION.test(error)
    ? RESTART
    : NEXT_STEPS[code as ErrorCode] ?? withoutPreamble(error);
  const own = provider === undefined
    ? step
    : step.replace(settingsPrefix("a"), settingsPrefix(provider));
  return `${code}: ${own}`;
}

function withoutPreamble(error: string): string {
  return error.replace(
    /^(?:Cannot verify deliveries of provider \w+|Database call failed): /,
    "",
  );
}
