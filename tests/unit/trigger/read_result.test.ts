import { assertEquals, assertRejects } from "@std/assert";
import { readResult } from "../../../scripts/trigger/read_result.ts";

const PROJECT = { url: "http://127.0.0.1:1", secretKey: "sb_secret_unit" };
const EVENT = {
  provider: "a",
  id: "evt_1&select=*",
  type: "customer.subscription.updated",
  subscription: "sub_1",
};

type Rows = Readonly<Record<string, readonly unknown[]>>;

/** The lines about an event, from a database with these rows. */
async function resultOf(
  rows: Rows,
  { status = 200, wasApplied = false, event = EVENT } = {},
) {
  const requests: URL[] = [];
  const { lines, errorCode } = await readResult(PROJECT, event, {
    status,
    wasApplied,
    tools: {
      clock: Date.now,
      fetch: (input, init) => {
        const headers = new Headers(init?.headers);
        assertEquals(headers.get("accept-profile"), "public");
        const url = new URL(String(input));
        requests.push(url);
        const table = url.pathname.replace("/rest/v1/billing_", "");
        return Promise.resolve(Response.json(rows[table] ?? []));
      },
    },
  });
  return { lines, errorCode, requests };
}

const APPLIED = { processed_events: [{ outcome: "applied" }] };
const ROW = { id: "sub_1", status: "active", canceled_at: null };

Deno.test("readResult() names the outcome, and the row that the event is about", async () => {
  const rows = { ...APPLIED, subscriptions: [ROW] };
  const { lines, requests } = await resultOf(rows);
  const row = ["  id      sub_1", "  status  active"];
  assertEquals(lines, ["applied. The row in billing.subscriptions:", ...row]);
  assertEquals(requests.map(({ searchParams }) => searchParams.get("id")), [
    null,
    "eq.sub_1",
  ]);
  assertEquals(requests[0]?.searchParams.get("event_id"), "eq.evt_1&select=*");
  assertEquals(requests[0]?.searchParams.getAll("select"), ["outcome"]);

  assertEquals((await resultOf(rows, { wasApplied: true })).lines, [
    "duplicate: the event was applied before. The row in billing.subscriptions:",
    ...row,
  ]);
  const stale = { ...rows, processed_events: [{ outcome: "stale" }] };
  assertEquals((await resultOf(stale)).lines, [
    "stale: newer events had been applied. The row in billing.subscriptions:",
    ...row,
  ]);
});

Deno.test("readResult() shows the notification of a failed payment", async () => {
  const event = { ...EVENT, type: "invoice.payment_failed" };
  const rows = { ...APPLIED, notifications: [{ id: 4, status: "pending" }] };
  const { lines } = await resultOf(rows, { event });
  assertEquals(lines[0], "applied. The row in billing.notifications:");
  assertEquals((await resultOf(APPLIED, { event })).lines, [
    "applied. There is no row in billing.notifications.",
  ]);
});

Deno.test("readResult() shows why an event failed, and says if nothing was stored", async () => {
  const rows = {
    ...APPLIED,
    failed_events: [{ error_code: "event_invalid", error: "id is missing" }],
  };
  const failed = await resultOf(rows, { status: 422 });
  assertEquals(failed.errorCode, "event_invalid");
  assertEquals(failed.lines, [
    "failed. The row in billing.failed_events:",
    "  error_code  event_invalid",
    "  error       id is missing",
  ]);
  assertEquals((await resultOf({}, { status: 401 })).lines, [
    "failed: nothing was stored.",
  ]);
  assertEquals((await resultOf({})).lines, ["ignored: nothing was stored."]);
});

Deno.test("readResult() rejects if the REST API refuses", async () => {
  const tools = {
    clock: Date.now,
    fetch: () => Promise.resolve(new Response("", { status: 401 })),
  };
  const options = { status: 200, wasApplied: false, tools };
  await assertRejects(
    () => readResult(PROJECT, EVENT, options),
    Error,
    "refuses the secret key",
  );
});
