/**
 * The calls of the outbox: notifications to accounts, and alerts to the operator.
 * The run of the worker that holds the lease has both. Another run gets none, and
 * nobody gets any while the receiver has asked for a pause.
 *
 * Each function throws a `DeliveryError` if its call fails. What was claimed is due
 * again when the lease has ended.
 */
import {
  callFunction,
  type DatabaseClient,
} from "../_shared/billing/database.ts";
import type { Json } from "../_shared/billing/database.types.ts";
import { databaseError } from "../_shared/billing/database_errors.ts";
import type { Alert, Attempt, Notification } from "./channels/channel.ts";

/** Of which run the call is, and to which receiver the messages go. */
export interface Outbox {
  readonly p_lease_id: string;
  readonly p_destination: string;
}

/**
 * The result for a claimed notification: an attempt, or `unsent` if the receiver
 * answered 429 to one before it.
 */
export type Result = Attempt | { readonly result: "unsent" };

/** A claimed notification or alert, and its result. */
export interface Attempted<Message> {
  readonly message: Message;
  readonly attempt: Result;
}

/**
 * A batch fits into the lease (60 s): the claim takes up to 5 s, the last
 * notification is sent 2 s later, an attempt takes up to 15 s (an e-mail: 5 s for
 * the address, 10 s for the mail), and the call that settles it 5 s.
 */
const LIMIT = { timeLimitMs: 5_000 };

/** Of a stored error, in UTF-16 units: enough to identify it. */
const ERROR_LENGTH = 1_000;

/** Claims due notifications, oldest first. */
export async function claimNotifications(
  database: DatabaseClient,
  claim: Outbox & { p_limit: number },
): Promise<readonly Notification[]> {
  const name = "billing_claim_notifications";
  return await callFunction(database, name, claim, LIMIT);
}

/**
 * Stores the results of claimed notifications. A `limited` result pauses all
 * notifications to the receiver.
 */
export async function settleNotifications(
  database: DatabaseClient,
  outbox: Outbox,
  attempts: readonly Attempted<Notification>[],
): Promise<void> {
  const results = attempts.map(({ message: { id }, attempt }) => ({
    id,
    result: attempt.result,
    error: "error" in attempt ? storable(attempt.error) : null,
    retry_after_seconds: retryAfter(attempt),
  }));
  const settle = { ...outbox, results };
  await callFunction(database, "billing_settle_notifications", settle, LIMIT);
}

/** Returns the alerts that are due. */
export async function claimAlerts(
  database: DatabaseClient,
  outbox: Outbox,
): Promise<readonly Alert[]> {
  const name = "billing_claim_alerts";
  const due: unknown = await callFunction(database, name, outbox, LIMIT);
  return due as Alert[];
}

/**
 * Stores which alerts were delivered, as they were claimed: by now, more may have
 * failed. The others are due again at the next run.
 */
export async function settleAlerts(
  database: DatabaseClient,
  outbox: Outbox,
  attempts: readonly Attempted<Alert>[],
): Promise<void> {
  const results = attempts.map(({ message: { kind, alert }, attempt }) => ({
    // To an alert, being given up means nothing.
    result: attempt.result === "dead" ? "failed" : attempt.result,
    kind,
    alert: alert as unknown as Json,
    retry_after_seconds: retryAfter(attempt),
  }));
  const settle = { ...outbox, results };
  await callFunction(database, "billing_settle_alerts", settle, LIMIT);
}

function retryAfter(attempt: Result): number | null {
  return "retryAfterSeconds" in attempt
    ? attempt.retryAfterSeconds ?? null
    : null;
}

/**
 * Makes an error storable. Part of the text comes from outside, and text that
 * Postgres cannot store would prevent the whole batch from being settled.
 */
function storable(error: string): string {
  return error.slice(0, ERROR_LENGTH).replaceAll("\0", "").toWellFormed();
}

/**
 * Returns the e-mail address of an account, from the project's
 * `billing.account_email` function; null if it has none.
 */
export async function accountEmail(
  database: DatabaseClient,
  accountId: string,
): Promise<string | null> {
  const { data, error } = await database
    .rpc("billing_account_email", { account_id: accountId })
    .abortSignal(AbortSignal.timeout(LIMIT.timeLimitMs));
  if (error !== null) {
    throw databaseError(error.code, `account_email failed: ${error.message}`);
  }
  return data;
}
