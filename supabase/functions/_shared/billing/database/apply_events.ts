import { DeliveryError } from "../errors.ts";
import type { WireEvent } from "../events/event.ts";
import { isRecord } from "../events/fields.ts";
import { badAnswer, callFunction, type DatabaseClient } from "./client.ts";
import { databaseError } from "./database_errors.ts";

export type BillingEvent = WireEvent & {
  readonly provider: string;
  /** Whether a sweep has found it. */
  readonly is_missed?: true;
  /** The ID of its row in `failed_events`, and the lease, if a run has claimed it. */
  readonly retry?: Readonly<{ event_id: string; lease_id: string }>;
};

const OUTCOMES = ["applied", "duplicate", "stale", "erased"] as const;

/** The outcome of an event that did not fail. `erased`: its account was erased. */
export type Outcome = typeof OUTCOMES[number];

/** Returns the log line of an erased account's event: a warning if somebody may have paid. */
export function describeErased(kind: string | undefined) {
  const isPurchase = kind === "creation" || kind === "opening_update";
  return {
    level: isPurchase ? "warn" : "info",
    message: isPurchase
      ? 'purchase of an erased account ignored: docs/operate.md, "Delete an account"'
      : "event of an erased account ignored",
  } as const;
}

type AnswerRow = Readonly<{
  place: number;
  outcome: Outcome | "failed";
  error_code?: string | null;
  error?: unknown;
  retries?: unknown;
}>;

/** A zod schema would slow a cold start. */
function isAnswer(rows: unknown): rows is AnswerRow[] {
  return Array.isArray(rows) && rows.every((row) =>
    isRecord(row) &&
    typeof row["place"] === "number" &&
    [...OUTCOMES, "failed"].some((outcome) => outcome === row["outcome"]) &&
    typeof (row["error_code"] ?? "") === "string"
  );
}

/**
 * Well under the 5 s in which a provider expects its answer; above the database's lock
 * timeout (0.5 s), so that it reports a lock itself.
 */
const TIME_LIMIT = { timeLimitMs: 3_000 };

type ApplyOptions = Readonly<{
  database: DatabaseClient;
  /** Called if a failure that waited for one of the events is to be retried. */
  onRetries?: () => void;
}>;

/**
 * Applies events that have no handler, each exactly once, in one call. Returns for each
 * its outcome or its own failure.
 *
 * @throws {DeliveryError} If the call as a whole fails.
 */
export async function applyEvents(
  events: readonly BillingEvent[],
  options: ApplyOptions,
): Promise<(Outcome | DeliveryError)[]> {
  const sent = events.map((event, index) => {
    return { place: index + 1, ...event };
  });
  const rows = await callFunction(
    options.database,
    "billing_apply_events",
    { events: sent },
    TIME_LIMIT,
  );
  const results = readOutcomes(rows, options);
  return events.map((_, index) => results.get(index + 1) ?? unreadable());
}

/**
 * Applies an event exactly once, and runs the app's handler of its type with it.
 *
 * @throws {DeliveryError} If the call fails: `apply_failed` if it took too long.
 */
export async function applyWithHandler(
  event: BillingEvent,
  options: ApplyOptions,
): Promise<Outcome | DeliveryError> {
  const rows = await callFunction(
    options.database,
    "billing_apply_handled_event",
    { event },
    TIME_LIMIT,
  ).catch((error: DeliveryError) => {
    throw asHandlerFailure(error);
  });
  return readOutcomes(rows, options).get(1) ?? unreadable();
}

/** Attributes a failure to the handler if the handler may have caused it. */
function asHandlerFailure(error: DeliveryError): DeliveryError {
  const { sqlState, code, message } = error;
  // The statement took too long.
  if (sqlState === "57014") {
    return new DeliveryError("apply_failed", message, { cause: error });
  }
  // The connection was lost.
  if (sqlState === "PGRST001") {
    const why =
      "If a handler's functions run deallocate, this happens each time.";
    const options = { sqlState, cause: error };
    return new DeliveryError(code, `${message} ${why}`, options);
  }
  return error;
}

function readOutcomes(rows: unknown, { onRetries }: ApplyOptions) {
  if (!isAnswer(rows)) throw unreadable();

  if (rows.some(({ retries }) => retries)) onRetries?.();
  return new Map(rows.map((row) => [row.place, readOutcome(row)]));
}

function readOutcome(
  { outcome, error_code, error }: AnswerRow,
): Outcome | DeliveryError {
  if (outcome !== "failed") return outcome;
  const code = error_code ?? "";
  // Our own messages are complete. Those of Postgres are looked up by code.
  const message = code.startsWith("BW") ? `${error}` : `${code}: ${error}`;
  return databaseError(code, message);
}

function unreadable(): DeliveryError {
  return badAnswer("the answer is not a list of outcomes");
}
