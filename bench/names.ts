/**
 * What is measured, as the results name it.
 *
 * @module
 */

/** This receiver. */
export const RECEIVER = "this receiver";

/** Its cold start with an event that it applies. */
export const FIRST_APPLIED = `${RECEIVER}, an event that it applies`;

/** The same with IDs in no order. */
export const RANDOM_IDS = `${RECEIVER}, random event IDs`;

/** The same with the least that SQL can do, and no rule. */
export const LEAST_SQL = `${RECEIVER}, SQL without rules`;

/** A call of the SQL function through PostgREST, and nothing else. */
export const BARE_CALL = "bare PostgREST call";

/** The same through the local gateway. */
export const GATEWAY = "the same through the gateway";

/** The least that a receiver costs if events come one at a time. */
export const LEAST = "the same through a function that only verifies";

/** A server that answers at once. */
export const BARE_SERVER = "bare server";

/** The SQL function straight in Postgres, with nothing to gather events. */
export const ONE_PER_CALL = "the SQL function, one event per call";
