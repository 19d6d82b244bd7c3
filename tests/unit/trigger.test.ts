import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { createHash } from "node:crypto";
import { UsageError } from "../../scripts/common/cli.ts";
import type { JsonObject } from "../../scripts/events/event_types.ts";
import { EVENT_TYPES } from "../../scripts/events/templates.ts";
import { advice } from "../../scripts/trigger/advice.ts";
import { waitBeforeMs } from "../../scripts/trigger.ts";
import {
  buildEvent,
  parseTriggerArguments,
} from "../../scripts/trigger/arguments.ts";
import * as result from "../../scripts/trigger/result.ts";
import { stripe } from "../../supabase/functions/_shared/billing/formats/stripe.ts";
import { parseEvent } from "../../supabase/functions/_shared/billing/parse_event.ts";
import { typesOf } from "../../supabase/functions/_shared/billing/formats/format.ts";

const CREATED = "customer.subscription.created";
const UPDATED = "customer.subscription.updated";
const DELETED = "customer.subscription.deleted";
const INVOICE = "invoice.payment_failed";
const TRIAL = "customer.subscription.trial_will_end";

const parsed = (line: string) =>
  parseTriggerArguments(line.split(" ").filter(Boolean));
const OF_FILE = "--payload x";
const OF_TYPE = `${DELETED} --subscription sub_1`;

/** Returns what is said after a command and its answer. */
function advised(line: string, status: number, body = "", errorCode?: string) {
  return advice({ status, body, errorCode }, parsed(line)).join("\n");
}

/** Returns the event that a command sends. */
function built(line: string) {
  const { source } = parsed(line);
  assert("type" in source);
  return buildEvent(source);
}

Deno.test("advice() after a success names the next command", () => {
  const run = "deno task trigger";
  const quoted = "--subscription 'it'\\''s'";
  const another = `Next, another subscription:\n${run} ${CREATED}`;
  const elsewhere = "--provider b --subscription sub_1 --url http://a.b/";
  for (
    const [line, end] of [
      [CREATED, `Next: ${run} ${UPDATED}`],
      [`${CREATED} --subscription it's`, `Next: ${run} ${UPDATED} ${quoted}`],
      [UPDATED, `Next: ${run} ${INVOICE}`],
      [`${UPDATED} ${elsewhere}`, elsewhere.replaceAll(/ (?=--)/g, " \\\n  ")],
      [INVOICE, `Next:\n${run} ${DELETED}`],
      [DELETED, `${another} --subscription sub_local_a_2`],
      [`${UPDATED} --as ${DELETED}`, `${another} --subscription sub_local_a_2`],
      [TRIAL, "add trial_ending to NOTIFY: docs/notifications.md."],
      ["charge.refunded", "billing.on_charge_refunded: docs/handlers.md."],
      ["invoice.paid --as foo.b-r", "billing.on_foo_b_r: docs/handlers.md."],
    ] as const
  ) {
    const said = advised(line, 200);
    assert(said.endsWith(end), said);
  }
  assertEquals(advised(OF_FILE, 200), "");
  const claimed = { status: 200, body: "OK", isClaimed: true };
  assertEquals(advice(claimed, parsed("charge.refunded")), []);
});

Deno.test("advice() after a failure is that of its code, or of the most likely one", () => {
  const CREATE = `deno task trigger ${CREATED} --subscription sub_1`;
  const LOG = "The receiver's log has the reason.";
  const RECORDED = "docs/runbook.md for SQL";
  for (
    const [line, status, errorCode, first, last] of [
      [OF_TYPE, 401, "", "most likely signature_mismatch: ", "functions/.env."],
      [OF_FILE, 404, "", "path_unknown: Use the path /fun", "webhook."],
      [OF_FILE, 413, "", "body_too_large: Raise MAX_BODY_BYTES", "is real."],
      [OF_FILE, 422, "event_invalid", "The event is in ", RECORDED],
      [OF_FILE, 500, "", LOG, RECORDED],
      [CREATED, 500, "", LOG, RECORDED],
      ["invoice.paid", 500, "", "most likely handler_missing: ", RECORDED],
      ["invoice.paid", 500, "handler_missing", "handler_missing: ", RECORDED],
      [OF_TYPE, 500, "", "most likely subscription_unknown: ", CREATE],
      [OF_TYPE, 500, "creation_pending", "creation_pending: ", CREATE],
      [OF_TYPE, 500, "apply_failed", "apply_failed: Read ", RECORDED],
      [OF_TYPE, 503, "", "most likely database_unavailable: ", "and its ID."],
      [OF_TYPE, 503, "record_locked", "record_locked: ", RECORDED],
    ] as const
  ) {
    const said = advised(line, status, "", errorCode || undefined);
    assert(said.startsWith(first) && said.endsWith(last), said);
    for (const line of said.split("\n")) assert(line.length < 80, line);
  }
  assertEquals(advised(OF_TYPE, 302), "");
  assert(advised(OF_FILE, 422, "Event is not valid").startsWith(LOG));
  assert(advised(OF_FILE, 400, "Body is empty").startsWith("body_empty: Send"));
  assertEquals(advised(OF_TYPE, 500, "Receiver is not configured"), LOG);
  // Several codes have this body.
  const ofB = advised(`${OF_TYPE} --provider b`, 401, "Invalid signature");
  assert(ofB.startsWith("most likely signature_mismatch"), ofB);
  assertStringIncludes(ofB, "PROVIDER_B_SIGNING_SECRET");
});

Deno.test("parseTriggerArguments() takes an event type with options, or a file", () => {
  const usual = { provider: "a", url: undefined, print: false } as const;
  const subscription = "sub_local_a";
  for (const type of EVENT_TYPES) {
    assertEquals(parsed(type), { ...usual, source: { type, subscription } });
  }
  const source = { payload: "event.json" };
  assertEquals(parsed("--payload event.json"), { ...usual, source });
  const given = "--account A --event E --status T --plan P --provider=b";
  assertEquals(parsed(`${given} ${INVOICE} --url https://a --print`), {
    ...{ provider: "b", url: "https://a", print: true },
    source: {
      ...{ type: INVOICE, subscription: "sub_local_b", account: "A" },
      ...{ event: "E", status: "T", plan: "P" },
    },
  });
});

Deno.test("parseTriggerArguments() refuses what it does not take", () => {
  for (
    const [line, ...messages] of [
      [`${INVOICE} --provider z`, 'Unknown provider "z"'],
      [`${INVOICE} --url localhost:1`, "--url takes"],
      [`${INVOICE} sub_1`, "one event type, not 2 words"],
      [`${INVOICE} --payload x`, `leave out: ${INVOICE}`],
      ["--payload x --event evt_1", "leave out: --event"],
      ["--payload x --print", "not for a --payload"],
      ["invoice.finalized", ...EVENT_TYPES],
      ["", ...EVENT_TYPES],
    ] as const
  ) {
    const refused = assertThrows(() => parsed(line), UsageError);
    for (const text of messages) assertStringIncludes(refused.message, text);
  }
});

const EVENT = {
  provider: "a",
  id: "evt_1&select=*",
  type: UPDATED,
  subscription: "sub_1",
  customer: "cus_1",
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
  const type = INVOICE;
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
  const paid = "applied: billing.on_invoice_paid ran.";
  const checkout = { type: "checkout.session.completed" };
  const { "subscriptions?eq.sub_1": _, ...claimed } = applied;
  const customer = { ...claimed, "customers?eq.a,eq.cus_1": { id: 5 } };
  const ran = "applied: billing.on_checkout_session_completed ran.";
  for (
    const [rows, options, head, ...row] of [
      [applied, {}, "applied. The row in billing.sub", ...shown],
      [stale, {}, "stale: newer events had been applied. The", ...shown],
      [applied, { wasApplied: true }, "duplicate: the event was", ...shown],
      [{}, {}, "ignored: nothing was stored."],
      [applied, { type: "invoice.paid" }, paid],
      [claimed, checkout, ran],
      [customer, checkout, "applied. The row in billing.cust", "  id  5"],
      [claimed, { ...checkout, wasApplied: true }, "duplicate: the event was"],
      [applied, { type }, "applied. There is no row in billing.notif"],
      [notified, { type }, "applied. The row in billing.notif", "  id  4"],
      [notified, { type: TRIAL }, "applied. The row in billing.no", "  id  4"],
      [applied, { status: 401 }, "failed: nothing was stored."],
      [failed, { status: 422 }, "failed. The row in ", ...wrapped],
    ] as const
  ) {
    const { lines, errorCode, isClaimed } = await resultOf(rows, options);
    assertEquals(lines[0]!.slice(0, head.length), head);
    assertEquals<unknown>(lines.slice(1), row);
    assertEquals(errorCode, rows === failed ? "x" : undefined);
    assertEquals(isClaimed, /^(?:app|dup|stale)/.test(head) || undefined);
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

Deno.test("sentEvent() finds what the receiver reads of a body", async () => {
  const { id, type, subscription, customer } = EVENT;
  const event = { id, type, data: { object: { id: subscription, customer } } };
  const sent = new TextEncoder().encode(JSON.stringify(event));
  assertEquals(await result.sentEvent(sent, "a"), EVENT);
  const body = Uint8Array.of(0xff, 0x7b);
  const hash = createHash("sha256").update(body).digest("hex");
  const none = { type: "", subscription: "", customer: "" };
  const filed = { id: `sha256:${hash}`, ...none };
  assertEquals(await result.sentEvent(body, "b"), { provider: "b", ...filed });
});

Deno.test("buildEvent() fills in what the command line leaves out", () => {
  const given = { type: INVOICE, subscription: "sub_mine" } as const;
  const event = buildEvent({ ...given, event: "evt_1" });
  const ids = JSON.stringify(event).match(/\b(?:evt|sub|acc)_\w+/g);
  assertEquals(new Set(ids), new Set(["evt_1", "sub_mine", "acc_local"]));
  const { metadata } = built(`${CREATED} --account=`).data.object as JsonObject;
  assertEquals(metadata, {}, "as of a payment link");
});

Deno.test("buildEvent() sends one item or several", () => {
  const itemsOf = (line: string) => {
    const now = { nowSeconds: Date.now() / 1000, toleranceSeconds: 1 };
    const parsed = parseEvent(JSON.stringify(built(line)), {
      format: stripe,
      ...now,
    });
    assert(parsed.handled);
    return parsed.event.report.items?.map((item) =>
      [item.price_id, item.quantity, item.usage_type].join()
    );
  };
  for (const type of [CREATED, UPDATED]) {
    assertEquals(itemsOf(`${type} --plan a`), ["a,1,licensed"]);
    assertEquals(
      itemsOf(`${type} --plan a:metered,price_b:12,c`),
      ["a,,metered", "price_b,12,licensed", "c,1,licensed"],
    );
  }
});

Deno.test("buildEvent() makes a payment's checkout and refund belong together, or a checkout a subscription's", () => {
  const idsOf = (line: string) => {
    const { id, payment_intent } = built(line).data.object as JsonObject;
    return [id, payment_intent];
  };
  const checkout = "checkout.session.completed";
  const later = "checkout.session.async_payment_succeeded";
  for (const type of [checkout, later]) {
    assertEquals(idsOf(`${type} --payment pi_1`), ["cs_test_1", "pi_1"]);
  }
  assertEquals(idsOf("charge.refunded --payment pi_1"), ["ch_1", "pi_1"]);
  assert(idsOf(checkout)[0] !== idsOf(checkout)[0], "each is a new one");
  const whole = (line: string) => {
    const object = built(line).data.object as JsonObject;
    const { mode, payment_status, customer, subscription } = object;
    const isPayment = object["payment_intent"] !== null;
    return [mode, isPayment, payment_status, customer, subscription];
  };
  assertEquals(whole(checkout), ["payment", true, "paid", "cus_local_a", null]);
  assertEquals(
    whole(`${checkout} --subscribe --subscription sub_1 --status unpaid`),
    ["subscription", false, "unpaid", "cus_1", "sub_1"],
  );
});

Deno.test("buildEvent() sends every type under its name or another, and further ones as Stripe does today", () => {
  for (const type of EVENT_TYPES) {
    const { api_version } = built(type);
    const version = typesOf(stripe).includes(type)
      ? "2024-06-20"
      : "2026-10-28.endive";
    assertEquals([built(type).type, api_version], [type, version]);
  }
  assertEquals(built(`${INVOICE} --as invoice.paid`).type, "invoice.paid");
});

Deno.test("waitBeforeMs() makes a creation wait for the next second", () => {
  const waits = [5_000, 5_001, 5_999].map((ms) => waitBeforeMs(CREATED, ms));
  assertEquals(waits, [1_000, 999, 1]);
  assertEquals(waitBeforeMs(DELETED, 5_001), 0);
});
