import { assertEquals } from "@std/assert";
import type postgres from "postgres";

/** An error code for each state that its alert ends up in. */
const CODES = {
  sent: "apply_failed",
  dead: "body_not_json",
  leased: "body_not_text",
  resolved: "deployment_fault",
  withdrawn: "internal_error",
  pending: "subscription_unknown",
} as const;

/** The error codes of the alerts that a worker still has to send afterwards. */
export const UNDELIVERED_ALERTS: string[] = [
  CODES.leased,
  CODES.resolved,
  CODES.pending,
];

/**
 * Puts alerts of every state into a database that has none, by the calls that a
 * worker makes.
 */
export async function putAlerts(sql: postgres.Sql): Promise<void> {
  const { withdrawn, pending, ...early } = CODES;
  for (const code of Object.values(early)) await fail(sql, code);
  await sql`select public.open_alerts()`;
  const results = await sql`
    select c.id, c.lease_id, n.alert ->> 'error_code' as code
    from public.claim_notifications(100, 3600, 'alerts', null, true) c
    join public.notifications n using (id)`;
  const settled = results.filter(({ code }) => code !== CODES.leased)
    .map(({ id, lease_id, code }) => ({
      id,
      lease_id,
      result: code === CODES.dead ? "dead" : "sent",
      error: code === CODES.dead ? "It answered 410" : null,
    }));
  await sql`
    select public.settle_notifications(${sql.json(settled)}, 'alerts')`;

  for (const code of [withdrawn, pending]) await fail(sql, code);
  await sql`select public.open_alerts()`;
  await sql`
    select public.resolve_failed_event(event_id, 'A test', 'somebody')
    from public.failed_events
    where error_code in (${CODES.resolved}, ${withdrawn})`;
  await sql`select public.open_alerts()`;

  const rows = await sql`
    select alert ->> 'error_code' as code, kind, status, lease_id is not null as leased
    from public.notifications
    where alert ->> 'error_code' in ${sql(Object.values(CODES))} order by 1, 2`;
  assertEquals(rows.map((row) => Object.values(row)), [
    [CODES.sent, "failure_opened", "sent", false],
    [CODES.dead, "failure_opened", "dead", false],
    [CODES.leased, "failure_opened", "pending", true],
    [CODES.resolved, "failure_opened", "sent", false],
    [CODES.resolved, "failures_resolved", "pending", false],
    [CODES.withdrawn, "failure_opened", "withdrawn", false],
    [CODES.pending, "failure_opened", "pending", false],
  ]);
}

async function fail(sql: postgres.Sql, code: string): Promise<void> {
  await sql`
    select public.record_failed_event(
      'b', ${`evt_${code}`}, '{}', 'text', ${code}, 'made by a test', 'x')`;
}
