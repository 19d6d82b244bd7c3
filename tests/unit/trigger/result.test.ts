import { assertEquals, assertRejects } from "@std/assert";
import { createHash } from "node:crypto";
import * as result from "../../../scripts/trigger/result.ts";

const EVENT = {
  provider: "a",
  id: "evt_1&select=*",
  type: "customer.subscription.updated",
  subscription: "sub_1",
};
const OF_EVENT = "eq.a,eq.evt_1&select=*";
const LEDGER = `processed_events?${OF_EVENT}`;

/** Reads what became of an event; `rows` are by the question for them. */
async function resultOf(
  rows: Readonly<Record<string, object>>,
  { status = 200, wasApplied = false, type = EVENT.type, secretKey = "x" } = {},
) {
  await using server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    ({ url, headers }) => {
      assertEquals(headers.get("accept-profile"), "public");
      const { pathname, searchParams } = new URL(url);
      searchParams.delete("select");
      const table = pathname.replace("/rest/v1/billing_", "");
      const row = rows[`${table}?${[...searchParams.values()]}`];
      const status = headers.get("apikey") === "x" ? 200 : 401;
      return Response.json(row ? [row] : [], { status });
    },
  );
  const project = { url: `http://127.0.0.1:${server.addr.port}`, secretKey };
  const event = { ...EVENT, type };
  return await result.readResult(project, event, { status, wasApplied });
}

Deno.test("readResult() names the outcome, and the row that the event is about", async () => {
  const record = { id: "sub_1", status: "active", canceled_at: null };
  const found = { "subscriptions?eq.sub_1": record };
  const applied = { ...found, [LEDGER]: { outcome: "applied" } };
  const stale = { ...applied, [LEDGER]: { outcome: "stale" } };
  const type = "invoice.payment_failed";
  const error = "long ".repeat(20).trim();
  const failure = `failed_events?${OF_EVENT},is.null`;
  const failed = { [failure]: { error_code: "x", error } };
  const notified = { ...applied, [`notifications?${OF_EVENT}`]: { id: 4 } };
  const wrapped = [
    "  error_code  x",
    `  error       ${error.slice(0, 64)}`,
    `              ${error.slice(65)}`,
  ];
  const shown = ["  id      sub_1", "  status  active"];
  for (
    const [rows, options, head, ...row] of [
      [applied, {}, "applied. The row in billing.sub", ...shown],
      [stale, {}, "stale: newer events had been applied. The", ...shown],
      [applied, { wasApplied: true }, "duplicate: the event was", ...shown],
      [{}, {}, "ignored: nothing was stored."],
      [applied, { type }, "applied. There is no row in billing.notif"],
      [notified, { type }, "applied. The row in billing.notif", "  id  4"],
      [applied, { status: 401 }, "failed: nothing was stored."],
      [failed, { status: 422 }, "failed. The row in ", ...wrapped],
    ] as const
  ) {
    const { lines, errorCode } = await resultOf(rows, options);
    assertEquals(lines[0]!.slice(0, head.length), head);
    assertEquals<unknown>(lines.slice(1), row);
    assertEquals(errorCode, rows === failed ? "x" : undefined);
  }
  const refused = () => resultOf({}, { secretKey: "another" });
  await assertRejects(refused, Error, "refuses the secret key");
});

Deno.test("projectOf() gives a key only to its own project", () => {
  const stack = { webhookUrl: "", dbUrl: "", secretKey: "local" };
  const local = { ...stack, apiUrl: "http://127.0.0.1:1" };
  const env = { SUPABASE_URL: "https://a.b/", SUPABASE_SECRET_KEY: "hosted" };
  const keyOf = (url: string) =>
    result.projectOf(url, { local, env })?.secretKey;
  assertEquals(keyOf("http://127.0.0.1:1/hook"), "local");
  assertEquals(keyOf("https://a.b/hook"), "hosted");
  assertEquals(keyOf("https://a.b.example/hook"), undefined);
});

Deno.test("sentEvent() finds what the receiver files a body under", async () => {
  const { id, type, subscription } = EVENT;
  const event = { id, type, data: { object: { id: subscription } } };
  const sent = new TextEncoder().encode(JSON.stringify(event));
  assertEquals(await result.sentEvent(sent, "a"), EVENT);
  const body = Uint8Array.of(0xff, 0x7b);
  const hash = createHash("sha256").update(body).digest("hex");
  const filed = { id: `sha256:${hash}`, type: "", subscription: "" };
  assertEquals(await result.sentEvent(body, "b"), { provider: "b", ...filed });
});
