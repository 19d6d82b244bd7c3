/**
 * The version before this one: its migrations, the data that it left in a
 * database, and the calls that its receiver and its worker make.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import type postgres from "postgres";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";

/** The release with those before {@linkcode NEXT_VERSION}. */
export const FIRST_RELEASE = "0.9.0";

/** The first migration of this version. The previous version had those before it. */
export const NEXT_VERSION = "20261122000001";

/** The previous version's tables. */
export const TABLES = [
  "subscriptions",
  "processed_events",
  "failed_events",
  "notifications",
  "notification_pace",
] as const;

/** A second in which more than one update happened. */
export const BUSY_SECOND = "2026-02-02T02:40:00Z";

const PERIOD_END = "2026-03-04T02:40:00Z";

/** An event as the previous receiver sends it: without the keys that came later. */
export type OldEvent = Readonly<Record<string, postgres.JSONValue>>;

/** The creation of a subscription. */
export function oldCreation(
  subscription: string,
  created: string | null,
  provider = "a",
): OldEvent {
  return {
    event_id: `evt_${subscription}_created`,
    created,
    type: "customer.subscription.created",
    subscription_id: subscription,
    account_id: "acc_1",
    plan_id: "price_1",
    current_period_end: PERIOD_END,
    provider,
  };
}

/** An update of a subscription. */
export function oldUpdate(
  subscription: string,
  created: string | null,
  values: { status: string; plan_id?: string; previous?: OldEvent; n?: number },
): OldEvent {
  const { status, plan_id = "price_1", previous = {}, n = 1 } = values;
  return {
    event_id: `evt_${subscription}_updated_${n}`,
    created,
    type: "customer.subscription.updated",
    subscription_id: subscription,
    status,
    plan_id,
    current_period_end: PERIOD_END,
    previous,
    provider: "a",
  };
}

/** A deletion of a subscription. */
export function oldDeletion(subscription: string, created: string): OldEvent {
  return {
    event_id: `evt_${subscription}_deleted`,
    created,
    type: "customer.subscription.deleted",
    subscription_id: subscription,
    provider: "a",
  };
}

/** A failed payment of a subscription. */
export function oldFailedPayment(
  subscription: string,
  eventId: string,
): OldEvent {
  return {
    event_id: eventId,
    created: "2026-02-03T00:00:00Z",
    type: "invoice.payment_failed",
    subscription_id: subscription,
    invoice_id: `in_${eventId}`,
    provider: "a",
  };
}

/**
 * Puts rows of every state into every table, by the calls that the previous
 * version makes, and asserts that they are there.
 */
export async function putPreviousData(sql: postgres.Sql): Promise<void> {
  await putSubscriptions(sql);
  await putStaleEvent(sql);
  await putNotifications(sql);
  await putFailures(sql);
}

async function putSubscriptions(sql: postgres.Sql): Promise<void> {
  await apply(sql, [
    oldCreation("sub_active", BUSY_SECOND),
    oldCreation("sub_quiet", BUSY_SECOND),
    oldCreation("sub_past_due", "2026-02-01T00:00:00Z"),
    oldCreation("sub_canceled", BUSY_SECOND),
    oldCreation("sub_undated", null, "b"),
    oldUpdate("sub_past_due", BUSY_SECOND, {
      status: "past_due",
      previous: { status: "active" },
    }),
    oldUpdate("sub_past_due", BUSY_SECOND, {
      status: "past_due",
      plan_id: "price_2",
      previous: { plan_id: "price_1" },
      n: 2,
    }),
    oldUpdate("sub_canceled", BUSY_SECOND, { status: "unpaid" }),
    oldDeletion("sub_canceled", "2026-02-02T02:50:00Z"),
  ]);
  const rows = await sql`
    select id, status, changed_in_second <> '{}' as remembers,
      canceled_at is not null as canceled
    from public.subscriptions order by id`;
  assertEquals(rows.map((row) => Object.values(row)), [
    ["sub_active", "active", false, false],
    ["sub_canceled", "canceled", false, true],
    ["sub_past_due", "past_due", true, false],
    ["sub_quiet", "active", false, false],
    ["sub_undated", "active", false, false],
  ]);
}

/** An update that is older than what its record holds. */
async function putStaleEvent(sql: postgres.Sql): Promise<void> {
  const event = oldUpdate("sub_canceled", "2026-01-01T00:00:00Z", {
    status: "active",
    n: 2,
  });
  const rows = await sql`
    select outcome from public.apply_billing_events(${sql.json([event])})`;
  assertEquals(rows.map(({ outcome }) => outcome), ["stale"]);
}

async function putNotifications(sql: postgres.Sql): Promise<void> {
  const results = ["sent", "failed", "dead", "undeliverable", "limited"];
  await apply(
    sql,
    [...results, "leased"].map((result) =>
      oldFailedPayment("sub_past_due", `evt_${result}`)
    ),
  );
  const claimed = await sql`
    select id, lease_id, event_id
    from public.claim_notifications(10, 3600, 'notices.example')`;
  const settled = claimed.filter(({ event_id }) => event_id !== "evt_leased")
    .map(({ id, lease_id, event_id }) => ({
      id,
      lease_id,
      result: event_id.replace("evt_", ""),
      error: "It answered 500",
    }));
  await sql`
    select public.settle_notifications(${
    sql.json(settled)
  }, 'notices.example')`;
  await apply(sql, [oldFailedPayment("sub_active", "evt_pending")]);
  const rows = await sql`
    select event_id, status, attempts, lease_id is not null as leased,
      last_error is not null as has_error
    from public.notifications order by event_id`;
  assertEquals(rows.map((row) => Object.values(row)), [
    ["evt_dead", "dead", 1, false, true],
    ["evt_failed", "pending", 1, false, true],
    ["evt_leased", "pending", 1, true, false],
    ["evt_limited", "pending", 0, false, true],
    ["evt_pending", "pending", 0, false, false],
    ["evt_sent", "sent", 1, false, false],
    ["evt_undeliverable", "undeliverable", 1, false, true],
  ]);
}

async function putFailures(sql: postgres.Sql): Promise<void> {
  for (
    const [id, body, encoding] of [
      ["evt_open", '{"id": "evt_open"}', "text"],
      ["evt_text", String.raw`{"id": "evt_text", "x": "\u0000"}`, "text"],
      ["evt_base64", "/w==", "base64"],
      ["evt_claimed", failedPayment("evt_claimed"), "text"],
      ["evt_early", failedPayment("evt_early"), "text"],
      ["evt_duplicate", "{}", "text"],
      ["evt_ignored", "{}", "text"],
      ["evt_stale", "{}", "text"],
      ["evt_requested", '{"id": "evt_requested"}', "text"],
      ["evt_repaired", '{"id": "evt_repaired"}', "text"],
      ["evt_by_hand", '{"id": "evt_by_hand"}', "text"],
      ["evt_sub_late_created", "{}", "text"],
    ] as const
  ) {
    await sql`
      select public.record_failed_event(
        'a', ${id}, ${body}, ${encoding}, 'event_invalid', 'No type',
        'customer.subscription.created')`;
  }
  await settleRetries(sql, ["duplicate", "ignored", "stale"]);
  await sql`select public.retry_failed_event('evt_claimed')`;
  await sql`select public.claim_failed_events(10, 3600)`;
  await sql`select public.retry_failed_event('evt_requested')`;
  await sql`
    update public.failed_events set payload = payload || '{"repaired": true}'
    where event_id = 'evt_repaired'`;
  await sql`
    select public.resolve_failed_event('evt_by_hand', 'A test', 'somebody')`;
  await apply(sql, [oldCreation("sub_late", BUSY_SECOND)]);
  const rows = await sql`
    select event_id, payload_encoding, resolution,
      retry_requested_at is not null as requested,
      retry_lease_id is not null as leased,
      original_payload is not null as repaired
    from public.failed_events order by event_id`;
  assertEquals(rows.map((row) => Object.values(row)), [
    ["evt_base64", "base64", null, false, false, false],
    ["evt_by_hand", "json", "by hand", false, false, false],
    ["evt_claimed", "json", null, true, true, false],
    ["evt_duplicate", "json", "duplicate", false, false, false],
    ["evt_early", "json", null, false, false, false],
    ["evt_ignored", "json", "ignored", false, false, false],
    ["evt_open", "json", null, false, false, false],
    ["evt_repaired", "json", null, false, false, true],
    ["evt_requested", "json", null, true, false, false],
    ["evt_stale", "json", "stale", false, false, false],
    ["evt_sub_late_created", "json", "applied", false, false, false],
    ["evt_text", "text", null, false, false, false],
  ]);
}

/** The body of a failed payment of `sub_active`. */
function failedPayment(id: string): string {
  const subscription = "sub_active";
  return JSON.stringify(invoiceEvent({ id, subscription }));
}

/** Retries the event that is named after each of these outcomes. */
async function settleRetries(
  sql: postgres.Sql,
  outcomes: readonly string[],
): Promise<void> {
  for (const outcome of outcomes) {
    await sql`select public.retry_failed_event(${`evt_${outcome}`})`;
  }
  const claimed = await sql`
    select provider, event_id, lease_id from public.claim_failed_events(10, 60)`;
  const results = claimed.map((claim) => ({
    ...claim,
    outcome: claim["event_id"].replace("evt_", ""),
  }));
  const [row] = await sql`
    select public.settle_failed_events(${sql.json(results)}) as settled`;
  assertEquals(row?.["settled"], outcomes.length);
}

async function apply(sql: postgres.Sql, events: OldEvent[]): Promise<void> {
  const rows = await sql`
    select outcome, error from public.apply_billing_events(${
    sql.json(events)
  })`;
  assertEquals(
    rows.map((row) => ({ ...row })),
    events.map(() => ({ outcome: "applied", error: null })),
  );
}
