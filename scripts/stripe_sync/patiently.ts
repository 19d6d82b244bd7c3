import { DeliveryError } from "../../supabase/functions/_shared/billing/errors.ts";
import type { AskTools } from "./ask.ts";

/** What waiting for the database needs of the outside. */
export type PatienceTools = AskTools;

/** A restart of a project's database takes seconds. */
const WAITS_MS = [500, 1_000, 2_000, 4_000, 8_000];

/**
 * Makes a call to the database, and makes it again where the database cannot
 * be reached or is too busy. What is applied twice is a duplicate the second
 * time.
 *
 * @throws {DeliveryError} The last, or at once what another try cannot mend.
 */
export async function patiently<T>(
  call: () => Promise<T>,
  { sleep, onWait }: PatienceTools,
): Promise<T> {
  for (const wait of WAITS_MS) {
    try {
      return await call();
    } catch (error) {
      if (!isPassing(error)) throw error;
      onWait(`${error.message} Again in ${wait / 1000} s.`);
      await sleep(wait);
    }
  }
  return await call();
}

/** Whether a failure passes by itself. */
export function isPassing(error: unknown): error is DeliveryError {
  return error instanceof DeliveryError &&
    (error.code === "database_unavailable" || error.code === "record_locked");
}
