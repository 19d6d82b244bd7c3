import { DeliveryError, type ErrorCode } from "./errors.ts";

/** This service's own SQLSTATEs, raised in `supabase/migrations`. */
const OWN: ReadonlyMap<string, ErrorCode> = new Map([
  ["BW001", "subscription_unknown"],
  ["BW002", "subscription_of_other_provider"],
  ["BW003", "deployment_fault"],
  ["BW004", "repair_pending"],
]);

/** Somebody else has locked what the event needs. */
const LOCK_NOT_AVAILABLE = "55P03";

/**
 * The deployment is wrong, and stays so until somebody mends it: a function, a
 * table or a column that the schema (cache) does not have, a schema or a path
 * that the API does not serve, a missing grant, a key that the API refuses.
 */
const DEPLOYMENT =
  /^(?:PGRST20[0-9]|PGRST106|PGRST125|PGRST30[0-2]|42501|42883|42P01|42703)$/;

/**
 * It passes by itself: the API cannot reach the database or waited too long
 * for a connection, connections lost, deadlocks, resources, cancellations and
 * shutdowns, system errors, a database that is read-only (25006: Supabase makes
 * it so while the disk is full). PGRST303 (since PostgREST 13) is about the
 * times in a token; the platform makes one for each call, and versions before
 * 14.18 and 16.3 now and then took it for one of the future.
 */
const TRANSIENT =
  /^(?:PGRST00[0-3]|PGRST303|25006|(?:08|40|53|55|57|58)[0-9A-Z]{3})$/;

/**
 * What a fault of the database or of its API stands for.
 *
 * @param code SQLSTATE or PostgREST code; undefined or empty where the answer
 * carried none, because none came or something in between spoke.
 */
export function databaseErrorCode(code: string | undefined): ErrorCode {
  if (code === LOCK_NOT_AVAILABLE) return "record_locked";
  if (!code || TRANSIENT.test(code)) return "database_unavailable";
  if (DEPLOYMENT.test(code)) return "deployment_fault";
  return OWN.get(code) ?? "apply_failed";
}

/**
 * A fault of the database as a {@linkcode DeliveryError}. Where the database
 * refuses data, its message may repeat them, so the log gets the code alone.
 *
 * @param message What the database says.
 */
export function databaseError(
  code: string | undefined,
  message: string,
): DeliveryError {
  const meaning = databaseErrorCode(code);
  return new DeliveryError(
    meaning,
    message,
    meaning === "apply_failed"
      ? { logMessage: `${code} from the database: see failed_events` }
      : {},
  );
}
