/**
 * What the console changes: each is one statement that the SQL editor runs too.
 *
 * @module
 */
import type { FailureFilter } from "./failure_filter.ts";
import { ask, type Project } from "./project.ts";
import { GIVEN_UP } from "./records.ts";
import { ProjectError } from "./refusal.ts";
import { type FailureKey, retryArguments } from "./sql.ts";

/** Requests the retry of one event. Returns the function's answer. */
export async function requestRetry(
  project: Project,
  { provider, eventId }: FailureKey,
): Promise<string> {
  const { data } = await ask(
    project,
    (signal) =>
      project.database.rpc("billing_retry_failed_event", {
        event_id: eventId,
        of_provider: provider,
      }).abortSignal(signal),
  );
  return data;
}

/** Requests the retry of all open failures that match. */
export async function requestRetries(
  project: Project,
  filter: FailureFilter,
): Promise<string> {
  const { data } = await ask(
    project,
    (signal) =>
      project.database.rpc(
        "billing_retry_failed_events",
        retryArguments(filter),
      )
        .abortSignal(signal),
  );
  return data;
}

/** Resolves a failure by hand. */
export async function resolveFailure(
  project: Project,
  { provider, eventId }: FailureKey,
  { reason, who }: { reason: string; who: string },
): Promise<string> {
  const { data } = await ask(
    project,
    (signal) =>
      project.database.rpc("billing_resolve_failed_event", {
        event_id: eventId,
        reason,
        who,
        of_provider: provider,
      }).abortSignal(signal),
  );
  return data;
}

/** Opens a failure again that was resolved by hand. */
export async function reopenFailure(
  project: Project,
  { provider, eventId }: FailureKey,
): Promise<void> {
  const { data } = await ask(
    project,
    (signal) =>
      project.database.from("billing_failed_events").update({
        resolved_at: null,
        resolution: null,
        resolution_note: null,
        resolved_by: null,
      }).eq("provider", provider).eq("event_id", eventId)
        .eq("resolution", "by hand")
        .select("event_id").abortSignal(signal),
  );
  if (data.length === 0) {
    throw new ProjectError(
      "Nothing was changed: it is not resolved by hand any more.",
      "",
    );
  }
}

/** Makes notifications due that were given up: one, or all. Returns how many. */
export async function resendNotifications(
  project: Project,
  id?: string,
): Promise<number> {
  const { count } = await ask(project, (signal) => {
    const all = project.database.from("billing_notifications").update({
      status: "pending",
      attempts: 0,
      // By Postgres's clock: this machine's may be ahead of it.
      next_attempt_at: "now",
    }, { count: "exact" }).in("status", GIVEN_UP);
    return (id === undefined ? all : all.eq("id", id)).abortSignal(signal);
  });
  return count;
}
