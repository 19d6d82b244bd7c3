import { assert, assertEquals } from "@std/assert";
import type { EventType } from "../../../scripts/events/templates.ts";
import { advice, type Sent } from "../../../scripts/trigger/advice.ts";

const CREATED = "customer.subscription.created";
const UPDATED = "customer.subscription.updated";
const DELETED = "customer.subscription.deleted";
const INVOICE = "invoice.payment_failed";

function sentOf(type: EventType, subscription?: string): Sent {
  const source = { type, ...(subscription && { subscription }) };
  return { provider: "a", source };
}
const OF_TYPE = sentOf(DELETED, "sub_1");
const OF_FILE: Sent = { provider: "a", source: { payload: "x" } };

Deno.test("advice() after a success names the next command", () => {
  const after = (sent: Sent) => advice({ status: 200, body: "OK" }, sent);
  const next = (type: string) => `Next: deno task trigger ${type}`;
  assertEquals(after(sentOf(CREATED)), [next(UPDATED)]);
  assertEquals(after(sentOf(UPDATED)), [next(INVOICE)]);
  assertEquals(after(sentOf(INVOICE)).slice(1).join(" "), next(DELETED));
  assertEquals(after(sentOf(DELETED)), [
    "Next, another subscription:",
    `deno task trigger ${CREATED} --subscription sub_local_a_2`,
  ]);
  const quoted = `${next(UPDATED)} --subscription 'it'\\''s'`;
  assertEquals(after(sentOf(CREATED, "it's")), [quoted]);
  const elsewhere = { provider: "b", url: "http://127.0.0.1:1/" } as const;
  assertEquals(after({ ...sentOf(UPDATED, "sub_1"), ...elsewhere }), [
    "Next:",
    `deno task trigger ${INVOICE} \\`,
    "  --provider b \\",
    "  --subscription sub_1 \\",
    "  --url http://127.0.0.1:1/",
  ]);
  assertEquals(after(OF_FILE), []);
  const unhandled = after(sentOf("payment_intent.payment_failed"));
  assert(unhandled.join(" ").endsWith("stored nothing."));
});

Deno.test("advice() after a failure is that of its code, or of the most likely one", () => {
  const CREATE = `deno task trigger ${CREATED} --subscription sub_1`;
  const LOG = "The receiver's log has the reason.";
  const RECORDED = "docs/runbook.md for SQL";
  for (
    const [sent, status, errorCode, first, last] of [
      [OF_TYPE, 401, "", "most likely signature_mismatch: ", "functions/.env."],
      [OF_FILE, 404, "", "path_unknown: Use the path /fun", "webhook."],
      [OF_FILE, 413, "", "body_too_large: Raise MAX_BODY_BYTES", "is real."],
      [OF_FILE, 422, "event_invalid", "The event is in ", RECORDED],
      [OF_FILE, 500, "", LOG, RECORDED],
      [sentOf(CREATED), 500, "", LOG, RECORDED],
      [OF_TYPE, 500, "", "most likely subscription_unknown: ", CREATE],
      [OF_TYPE, 500, "creation_pending", "creation_pending: ", CREATE],
      [OF_TYPE, 500, "apply_failed", "apply_failed: Read ", RECORDED],
      [OF_TYPE, 503, "", "most likely database_unavailable: ", "and its ID."],
      [OF_TYPE, 503, "record_locked", "record_locked: ", RECORDED],
    ] as const
  ) {
    const answer = { status, body: "", errorCode: errorCode || undefined };
    const lines = advice(answer, sent);
    assert(lines[0]!.startsWith(first), `${lines[0]}`);
    assert(lines.at(-1)!.endsWith(last), `${lines.at(-1)}`);
    for (const line of lines) assert(line.length < 80, line);
  }
  assertEquals(advice({ status: 302, body: "" }, OF_TYPE), []);
  const invalid = advice({ status: 422, body: "Event is not valid" }, OF_FILE);
  assertEquals(invalid[0], LOG);
  const empty = advice({ status: 400, body: "Body is empty" }, OF_FILE);
  assert(empty[0]!.startsWith("body_empty: Send the event"));
  const body = "Receiver is not configured";
  assertEquals(advice({ status: 500, body }, OF_TYPE), [LOG]);
  const signed = advice({ status: 401, body: "" }, {
    ...OF_TYPE,
    provider: "b",
  });
  assert(signed.join().includes("PROVIDER_B_SIGNING_SECRET"));
});
