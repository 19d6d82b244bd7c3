import { DeliveryError, type ErrorCode } from "../errors.ts";
import { type Format, lacksAccountId } from "../events/format.ts";

/** A handler of the app raised an error; the message names both. */
const HANDLER_RAISED = "BW008";

/** Those with BW are raised in `supabase/schemas`. */
const EXACT: ReadonlyMap<string, ErrorCode> = new Map([
  ["BW001", "subscription_unknown"],
  ["BW002", "subscription_of_other_provider"],
  ["BW003", "deployment_fault"],
  ["BW004", "repair_pending"],
  ["BW005", "account_unknown"],
  ["BW006", "creation_pending"],
  ["BW007", "handler_missing"],
  [HANDLER_RAISED, "apply_failed"],
  ["BW009", "event_invalid"],
  // Another transaction has locked a row that the event needs.
  ["55P03", "record_locked"],
  // The API refuses a legacy key, which is a token.
  ["PGRST301", "key_refused"],
  ["PGRST302", "key_refused"],
]);

/** A function, table, column or grant is missing, or the API does not serve a path. */
const DEPLOYMENT =
  /^(?:PGRST20[0-9]|PGRST106|PGRST125|PGRST300|42501|42883|42P01|42703)$/;

/**
 * Faults that pass without a fix: the API cannot reach the database or waited
 * too long for a connection, lost connections, deadlocks, exhausted resources,
 * cancellations and shutdowns, system errors, a read-only database (25006:
 * the disk is full), a connection that has lost the API's prepared statements
 * (26000, 42P05). PGRST303 rejects the times in a token: the platform makes one per call,
 * and PostgREST before 14.18 and 16.3 sometimes took it to be issued in the future.
 */
const TRANSIENT =
  /^(?:PGRST00[0-3]|PGRST303|25006|26000|42P05|(?:08|40|53|55|57|58)[0-9A-Z]{3})$/;

function errorCodeOf(code: string | undefined, status?: number): ErrorCode {
  if (!code) {
    // The project's gateway refuses a revoked key with 401.
    const isRefused = status === 401 || status === 403;
    return isRefused ? "key_refused" : "database_unavailable";
  }
  const exact = EXACT.get(code);
  if (exact !== undefined) return exact;
  if (TRANSIENT.test(code)) return "database_unavailable";
  return DEPLOYMENT.test(code) ? "deployment_fault" : "apply_failed";
}

/**
 * Returns a fault of the database or its API as a {@linkcode DeliveryError}. If the
 * database refuses data, its message may repeat it, so the log gets only the code.
 *
 * @param code SQLSTATE or PostgREST code; undefined or empty if there was no
 * answer, if a proxy in between answered, or if a connection in PostgREST's pool
 * had died (https://github.com/PostgREST/postgrest/issues/4681).
 */
export function databaseError(
  code: string | undefined,
  message: string,
  { status, ...options }: ErrorOptions & { status?: number } = {},
): DeliveryError {
  const errorCode = errorCodeOf(code, status);
  let logMessage = message;
  if (errorCode === "apply_failed") {
    const summary = code === HANDLER_RAISED
      ? message.split(":")[0]
      : `The database refused the event with ${code}`;
    logMessage = `${summary}: see its row in failed_events`;
  }
  return new DeliveryError(errorCode, message, {
    logMessage,
    sqlState: code,
    ...options,
  });
}

/**
 * Returns whether the database refused an event only because it has no account: a creation
 * (BW005), or an event of a subscription that is not recorded (BW001). An event that came
 * before its creation has an account id, or its customer's account is known (BW006).
 */
export function isUnmapped(
  { sqlState }: DeliveryError,
  text: string,
  format: Format,
): boolean {
  return (sqlState === "BW001" || sqlState === "BW005") &&
    lacksAccountId(JSON.parse(text), format);
}
