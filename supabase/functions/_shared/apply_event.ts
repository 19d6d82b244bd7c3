import { callDatabase, type DatabaseClient } from "./database.ts";
import { databaseError } from "./database_errors.ts";
import { DeliveryError } from "./errors.ts";
import type { HandledEvent } from "./events.ts";
import type { Log } from "./log.ts";

/** A handled event together with the provider that sent it. */
export type BillingEvent = HandledEvent & { readonly provider: string };

/** What became of an event that did not fail. */
export type Outcome = "applied" | "duplicate" | "stale";

/**
 * Well under the 5 s within which a provider expects its answer, and above the
 * lock timeout in the database (2 s), so that the database is the one to speak.
 */
const TIME_LIMIT = 3_000;

/**
 * Applies an event exactly once.
 *
 * @throws {DeliveryError} With the event's own failure, or with
 * `database_unavailable` or `deployment_fault` for that of the call.
 */
export async function applyEvent(
  event: BillingEvent,
  { database, log, now }: {
    database: DatabaseClient;
    log: Log;
    now: () => number;
  },
): Promise<Outcome> {
  const started = now();
  const rows = await callDatabase(
    (signal) =>
      database.rpc("apply_billing_events", { events: [event] })
        .abortSignal(signal),
    { timeLimit: TIME_LIMIT },
  );
  const row = rows[0];
  switch (row?.outcome) {
    case "applied":
    case "duplicate":
    case "stale":
      log("info", "events applied", {
        outcomes: { [row.outcome]: 1 },
        duration_ms: now() - started,
      });
      return row.outcome;
    case "failed":
      throw databaseError(row.error_code, row.error);
    default:
      throw new DeliveryError(
        "database_unavailable",
        "Database call failed: the answer is not one of outcomes",
      );
  }
}
