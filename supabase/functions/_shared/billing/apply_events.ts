import { z } from "zod/mini";
import { callFunction, type DatabaseClient } from "./database.ts";
import { databaseError } from "./database_errors.ts";
import { DeliveryError } from "./errors.ts";
import type { HandledEvent } from "./formats/stripe.ts";

/** A handled event together with the provider that sent it. */
export type BillingEvent = HandledEvent & { readonly provider: string };

/**
 * An event that a run of the worker has claimed: the id of its row in
 * `failed_events`, and the run's lease.
 */
export type RetriedEvent = BillingEvent & {
  readonly retry: { readonly event_id: string; readonly lease_id: string };
};

/** The outcome of an event that did not fail; `erased`: its account was. */
export type Outcome = "applied" | "duplicate" | "stale" | "erased";

/**
 * The answer of `billing_apply_events`. A proxy in between may garble it. It is
 * made when first needed, as `handledEvent` is.
 */
const eventOutcomes = z.lazy(() =>
  z.array(z.object({
    place: z.number(),
    outcome: z.enum(["applied", "duplicate", "stale", "erased", "failed"]),
    error_code: z.nullish(z.string()),
    error: z.nullish(z.string()),
    retries: z.nullish(z.boolean()),
  }))
);

/**
 * Well under the 5 s within which a provider expects its answer. Above the lock
 * timeout in the database (0.5 s), so that the database reports a lock itself.
 */
const TIME_LIMIT_MS = 3_000;

/**
 * Applies each event exactly once, all in one call.
 *
 * @param options.oncePerInvoice Whether further failed payments of an invoice
 * create no notification.
 * @param options.onRetries Called if failures that lacked one of these events are to
 * be retried now.
 * @returns For each event, in the same order, its outcome or its own failure.
 * @throws {DeliveryError} If the call as a whole fails:
 * `database_unavailable`, `record_locked` or `deployment_fault`.
 */
export async function applyEvents(
  events: readonly (BillingEvent | RetriedEvent)[],
  { database, oncePerInvoice = false, onRetries }: {
    database: DatabaseClient;
    oncePerInvoice?: boolean;
    onRetries?: () => void;
  },
): Promise<(Outcome | DeliveryError)[]> {
  const sent = events.map((event, index) => ({
    place: index + 1,
    ...event,
    ...(oncePerInvoice && event.payment &&
      { payment: { ...event.payment, once_per_invoice: true } }),
  }));
  const rows: unknown = await callFunction(
    database,
    "billing_apply_events",
    { events: sent },
    { timeLimitMs: TIME_LIMIT_MS },
  );
  const answer = eventOutcomes.safeParse(rows);
  if (!answer.success) throw unreadable();
  if (answer.data.some(({ retries }) => retries)) onRetries?.();
  const results = new Map(
    answer.data.map((row) => [row.place, readOutcome(row)]),
  );
  return events.map((_, index) => results.get(index + 1) ?? unreadable());
}

function readOutcome(
  { outcome, error_code, error }: z.output<typeof eventOutcomes>[number],
): Outcome | DeliveryError {
  if (outcome !== "failed") return outcome;
  const code = error_code ?? "";
  // Our own messages are complete. Those of Postgres are looked up by code.
  const message = code.startsWith("BW") ? `${error}` : `${code}: ${error}`;
  return databaseError(code, message);
}

function unreadable(): DeliveryError {
  return new DeliveryError(
    "database_unavailable",
    "Database call failed: the answer is not a list of outcomes",
  );
}
