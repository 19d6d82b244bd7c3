/**
 * The statements that the actions run, as a person pastes them into the SQL
 * editor.
 *
 * @module
 */
import type { FailureFilter } from "./failure_filter.ts";
import { HIDDEN } from "./visible.ts";

/** Which failure: both providers may have an event with the same id. */
export interface FailureKey {
  readonly provider: string;
  readonly eventId: string;
}

const TO_ESCAPE = new RegExp(`\\\\|(?!\\n)${HIDDEN.source}`, "gu");

/**
 * Returns a text as a string constant of SQL. One with a backslash or a hidden
 * character is an escape string, in which every such character is visible.
 */
export function sqlString(text: string): string {
  const escaped = text.replace(
    TO_ESCAPE,
    (character) =>
      character === "\\"
        ? "\\\\"
        : `\\U${character.codePointAt(0)!.toString(16).padStart(8, "0")}`,
  );
  return `${escaped === text ? "" : "e"}'${escaped.replaceAll("'", "''")}'`;
}

/** Returns the statement that retries one event. */
export function retrySql({ provider, eventId }: FailureKey): string {
  return `select billing.retry_failed_event(${
    sqlString(eventId)
  }, of_provider => ${sqlString(provider)});`;
}

/** Returns the statement that retries all open failures that match a filter. */
export function retryAllSql(filter: FailureFilter): string {
  const given = Object.entries(retryArguments(filter))
    .map(([name, value]) => `${name} => ${sqlString(value)}`);
  return `select billing.retry_failed_events(${given.join(", ")});`;
}

/** Returns the arguments of `retry_failed_events` for a filter. */
export function retryArguments(
  { code, type, since, until }: FailureFilter,
): Readonly<Record<string, string>> {
  return {
    ...(type !== undefined && { of_type: type }),
    ...(code !== undefined && { of_error_code: code }),
    ...(since !== undefined && { failed_since: since }),
    ...(until !== undefined && { failed_until: until }),
  };
}

/** Returns the statement that resolves a failure by hand. */
export function resolveSql(
  { provider, eventId }: FailureKey,
  { reason, who }: { reason: string; who: string },
): string {
  const given = [eventId, reason, who].map(sqlString).join(", ");
  return `select billing.resolve_failed_event(${given}, of_provider => ${
    sqlString(provider)
  });`;
}

/** Returns the statement that opens a failure again that was resolved by hand. */
export function reopenSql({ provider, eventId }: FailureKey): string {
  return `update billing.failed_events set
  resolved_at = null, resolution = null, resolution_note = null, resolved_by = null
where provider = ${sqlString(provider)} and event_id = ${sqlString(eventId)}
  and resolution = 'by hand';`;
}

/** Returns the statement that stores a repaired payload. */
export function repairSql(
  { provider, eventId }: FailureKey,
  payload: string,
): string {
  return `update billing.failed_events
set payload = ${sqlString(payload)}
where provider = ${sqlString(provider)} and event_id = ${sqlString(eventId)};`;
}

/** Returns the statement that sends notifications again: one, or all given up. */
export function resendSql(id?: string): string {
  return `update billing.notifications
set status = 'pending', attempts = 0, next_attempt_at = now()
where ${
    id === undefined ? "" : `id = ${sqlString(id)} and `
  }status in ('dead', 'undeliverable');`;
}
