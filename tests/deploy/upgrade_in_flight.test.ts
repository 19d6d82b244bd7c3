/**
 * A database of each release, with rows in every state, upgraded while work is
 * under way: what is claimed is settled or taken over, what waits is delivered
 * once, and what is done stays done.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import type postgres from "postgres";
import { readReleased } from "../../scripts/dev/release/released.ts";
import { RELEASED_MIGRATIONS } from "../../scripts/dev/release/released_migrations.ts";
import { UNDELIVERED_ALERTS } from "../support/alert_states.ts";
import {
  alertEnvironment,
  startNotifiedEndpoint,
} from "../support/notified_endpoint.ts";
import { FIRST_RELEASE } from "../support/previous_version.ts";
import { startReceiver } from "../support/receiver.ts";
import { deliver } from "../support/send.ts";
import { statesWithoutRows } from "../support/states_without_rows.ts";
import { failureOf, takeTurn } from "../support/triage.ts";
import { createUpgradedProject } from "../support/upgraded_project.ts";
import { startWorker } from "../support/worker.ts";
import { outboxRow } from "../support/outbox.ts";

const RELEASES = Object.keys(await readReleased(RELEASED_MIGRATIONS));

for (const release of RELEASES) {
  Deno.test(`what ${release} had under way is done after an upgrade, once`, async () => {
    await using project = await createUpgradedProject(
      `in_flight_${release.replaceAll(".", "_")}`,
      async (sql) => ({
        empty: await statesWithoutRows(sql),
        statuses: await statuses(sql),
      }),
      { release },
    );
    const { sql, before, after } = project;
    assertEquals(before.empty, []);
    assertEquals(after.statuses, before.statuses);

    // The worker of before comes back with what it had claimed.
    await settleLease(sql, "evt_leased");
    // One that ended does not, so its leases end.
    await endLeases(sql);

    await using endpoint = startNotifiedEndpoint();
    await using operator = startNotifiedEndpoint();
    const env = { SUPABASE_URL: project.url };
    await using receiver = await startReceiver({ env });
    await using worker = await startWorker({
      ...env,
      ...endpoint.env,
      ...alertEnvironment(operator),
    });
    const { payload } = await failureOf(sql, "evt_early");
    // The provider delivers it again.
    assertEquals((await deliver(receiver.url, payload as object)).status, 200);
    await takeTurn(worker);

    for (const event of ["evt_early", "evt_claimed"]) {
      assertEquals((await failureOf(sql, event)).resolution, "applied", event);
    }
    const requested = await failureOf(sql, "evt_requested");
    assertEquals([requested.attempts, requested.resolved_at], [2, null]);
    const delivered = ["evt_claimed", "evt_early", "evt_failed"];
    assertEquals(
      endpoint.arrivals.map(({ eventId }) => eventId).sort(),
      [...delivered, "evt_limited", "evt_pending"],
    );
    assertEquals(
      (await statuses(sql)).filter(({ event_id }) => event_id !== null)
        .filter(({ status }) => status !== "sent"),
      before.statuses.filter(({ status, kind }) =>
        ["dead", "undeliverable"].includes(status) && kind === "payment_failed"
      ),
    );
    assertEquals((await outboxRow(sql, "evt_failed")).attempts, 2);

    // Alerts of before, and those of failures that were open already.
    const alerts = await sql`
      select alert ->> 'error_code' as code, status from public.notifications
      where kind <> 'payment_failed' and status <> 'dead' and status <> 'withdrawn'`;
    assert(alerts.length > 0);
    assertEquals(alerts.filter(({ status }) => status !== "sent"), []);
    assertEquals(
      operator.arrivals.map(({ message }) => message.data["error_code"]).sort(),
      // The first release had no alerts.
      release === FIRST_RELEASE ? ["event_invalid"] : UNDELIVERED_ALERTS,
    );
    assertEquals([endpoint.refused, operator.refused], [[], []]);
  });
}

async function statuses(sql: postgres.Sql) {
  const rows = await sql`
    select event_id, status, to_jsonb(n) ->> 'kind' as kind
    from public.notifications n order by event_id, id`;
  return rows.map(({ event_id, status, kind }) => ({
    event_id,
    status: String(status),
    // 0.9.0 knew one kind.
    kind: String(kind ?? "payment_failed"),
  }));
}

/** Settles a notification as the worker that claimed it does. */
async function settleLease(sql: postgres.Sql, event: string): Promise<void> {
  const { id, lease_id } = await outboxRow(sql, event);
  const results = [{ id, lease_id, result: "sent", error: null }];
  const [row] = await sql`
    select public.settle_notifications(${
    sql.json(results)
  }, 'notices.example') as settled`;
  assertEquals(row?.["settled"], 1);
}

/** Ends leases, waits and pauses, as time does. */
async function endLeases(sql: postgres.Sql): Promise<void> {
  await sql`
    update public.failed_events set retry_leased_until = now()
    where retry_leased_until is not null`;
  await sql`
    update public.notifications set next_attempt_at = now()
    where status = 'pending'`;
  await sql`delete from public.notification_pace`;
}
