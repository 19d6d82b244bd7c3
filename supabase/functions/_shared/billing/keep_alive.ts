/** Supabase's runtime. Undefined elsewhere: there the process stays alive. */
declare const EdgeRuntime:
  | { waitUntil(promise: Promise<unknown>): void }
  | undefined;

/**
 * Makes the platform keep this instance until the work is done, even after the response
 * is sent or the caller has gone, but not beyond the wall clock limit.
 *
 * @see https://supabase.com/docs/guides/functions/background-tasks
 */
export function keepAlive(work: Promise<unknown>): void {
  if (typeof EdgeRuntime !== "undefined") EdgeRuntime.waitUntil(work);
}
