/** Supabase's runtime; not there elsewhere, where a process simply lives on. */
declare const EdgeRuntime:
  | { waitUntil(promise: Promise<unknown>): void }
  | undefined;

/**
 * Has the platform keep this instance until the work is done, though its caller
 * has its answer or is gone. The limit of wall clock time holds all the same.
 *
 * @see https://supabase.com/docs/guides/functions/background-tasks
 */
export function keepAlive(work: Promise<unknown>): void {
  if (typeof EdgeRuntime !== "undefined") EdgeRuntime.waitUntil(work);
}
