import { assert, assertEquals } from "@std/assert";
import { createHash } from "node:crypto";
import { applyEvents } from "../../../supabase/functions/_shared/billing/apply_events.ts";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import {
  handleWebhook,
  type Receiver,
} from "../../../supabase/functions/billing-webhook/handle_webhook.ts";
import { readProviders } from "../../../supabase/functions/billing-webhook/providers.ts";
import { hmacHex } from "../../support/sign.ts";
import { type Answer, fakeDatabase, refusal } from "./fixtures.ts";

const NOW = 1_793_700_000;
const SECRET = "unit-test-of-provider-b";
const DELETED = "customer.subscription.deleted";

/** An event as text. What no log line may repeat is in each. */
function event(type: string, object: object): string {
  const data = { object: { ...object, note: "LEAKED" } };
  return JSON.stringify({ id: "evt_1", type, created: NOW, data });
}
const DELETION = event(DELETED, { id: "sub_1" });
const INVOICE = event("invoice.payment_failed", { subscription: "sub_1" });
const CREATION = event("customer.subscription.created", { id: "sub_1" });
const dated = (created: number) => DELETION.replace(`${NOW}`, `${created}`);

interface Setting {
  /** The row that the database answers, or all of its answer. */
  readonly apply?: Record<string, unknown> | Answer;
  readonly record?: Answer;
  readonly receiver?: Partial<Receiver>;
  readonly env?: Record<string, string>;
}

/** What becomes of a signed body: reply, log line, calls and wakes. */
async function handle(
  body: string,
  { apply = { outcome: "applied" }, record, receiver, env }: Setting = {},
  edit = (request: Request) => request,
) {
  const lines: [string, string, Record<string, unknown>][] = [];
  let [wakes, ticks] = [0, 0];
  const { database, calls } = fakeDatabase((...call) => {
    const isRecord = call[0] === "record_failed_event";
    if (isRecord) return record?.(...call) ?? Response.json(true);
    return typeof apply === "function"
      ? apply(...call)
      : Response.json([{ place: 1, ...apply }]);
  });
  const headers = { "provider-b-signature": hmacHex(SECRET, body) };
  const url = "http://localhost/billing-webhook";
  const request = new Request(url, { method: "POST", headers, body });
  const secret = { PROVIDER_B_SIGNING_SECRET: SECRET };
  const response = await handleWebhook(edit(request), {
    providers: await readProviders({ ...secret, ...env }),
    toleranceSeconds: 300,
    body: { maxBytes: 4_096, timeLimitMs: 5_000 },
    apply: async (event) => {
      const [outcome] = await applyEvents([event], { database });
      if (typeof outcome === "string") return outcome;
      throw outcome;
    },
    database,
    unmappedSubscriptions: "fail",
    wakeWorker: () => wakes++,
    log: (level, message, fields = {}) => lines.push([level, message, fields]),
    // Shows the time between two looks.
    clock: () => NOW * 1000 + ticks++,
    ...receiver,
  });
  assertEquals(lines.length, 1, "each delivery has one line");
  const [[level, message, fields]] = lines as [typeof lines[number]];
  assert(!JSON.stringify(lines).includes("LEAKED"), JSON.stringify(lines));
  const names = calls.map(([name]) => name[0]).join("");
  const outcome = Object.keys(fields.outcomes ?? {})[0] ?? fields.code;
  const line = `${level}: ${message} (${outcome})`;
  return { response, line, fields, calls, names, wakes };
}

const IGNORED = "info: event ignored (ignored)";
const THIN =
  "warn: thin event ignored, and its change is lost: at the provider, replace this destination with one that sends snapshot payloads (ignored)";
const BEFORE = "info: duplicate of an applied event (duplicate)";
const OF_OTHER_MODE = "info: event of the other mode ignored (ignored)";
const applied = (outcome: string) => `info: events applied (${outcome})`;
const rejected = (code: string) => `warn: delivery failed (${code})`;
const failed = (code: string) => `error: delivery failed (${code})`;
const UNSTORED = failed("failure_not_recorded");

const down = { apply: () => refusal("57014") };
const lost = { ...down, record: () => Response.json(false) };
const refused = () => refusal("22P02", "LEAKED");
const outcome = (outcome: string, error_code?: string): Setting => {
  return { apply: { outcome, error_code, error: error_code && "LEAKED" } };
};
const ignoring: Setting = { receiver: { unmappedSubscriptions: "ignore" } };
const live: Setting = { env: { PROVIDER_B_MODE: "live" } };
const overloaded = new DeliveryError("overloaded", "wait");
const mistaken: Setting = { receiver: { apply: () => Promise.reject("why") } };
const full: Setting = { receiver: { apply: () => Promise.reject(overloaded) } };

const OTHER_MODE = DELETION.replace("{", '{"livemode":false,');

/** The log line, calls (a: apply, r: record), and wakes; for which delivery. */
const DELIVERIES: [line: string, calls: string, number, string, Setting?][] = [
  [applied("applied"), "a", 0, DELETION],
  [applied("stale"), "a", 0, DELETION, outcome("stale")],
  [applied("applied"), "a", 1, INVOICE],
  // The first delivery may have ended before it woke the worker.
  [applied("duplicate"), "a", 1, INVOICE, outcome("duplicate")],
  [applied("stale"), "a", 0, INVOICE, outcome("stale")],
  [applied("applied"), "a", 0, `\ufeff${DELETION}`],
  [applied("applied"), "a", 0, dated(NOW + 300)],
  [IGNORED, "", 0, '{"id":"evt_1","type":"x","data":"LEAKED"}'],
  // Nothing has checked what is ignored.
  [IGNORED, "", 0, '{"id":"a\\nLEAKED","type":"a\\nLEAKED"}'],
  [THIN, "", 0, `{"id":{"x":"LEAKED"},"type":"v1.${DELETED}"}`],
  [OF_OTHER_MODE, "", 0, OTHER_MODE, live],
  ["info: unmapped event ignored (ignored)", "", 0, CREATION, ignoring],
  // It was applied before, by a call whose answer was lost.
  [BEFORE, "ar", 0, DELETION, lost],
  [BEFORE, "ar", 1, INVOICE, lost],
  [rejected("body_not_json"), "r", 0, "{"],
  [rejected("event_invalid"), "r", 0, dated(NOW + 301)],
  [rejected("event_invalid"), "r", 0, CREATION],
  [rejected("event_invalid"), "r", 0, event(DELETED, {}), ignoring],
  [failed("apply_failed"), "ar", 0, DELETION, outcome("failed", "22P02")],
  [failed("apply_failed"), "ar", 0, DELETION, { apply: refused }],
  [failed("database_unavailable"), "ar", 0, INVOICE, { ...down, ...ignoring }],
  [failed("internal_error"), "r", 0, DELETION, mistaken],
  // An overloaded receiver makes no further call.
  [failed("overloaded"), "", 0, DELETION, full],
  [UNSTORED, "ar", 0, DELETION, { ...down, record: refused }],
  [UNSTORED, "r", 0, "{", { record: down.apply }],
];
Deno.test("handleWebhook() applies, ignores or records an event, and says so in one line", async () => {
  for (const [line, calls, wakes, body, setting] of DELIVERIES) {
    const made = await handle(body, setting);
    assertEquals([made.line, made.names, made.wakes], [line, calls, wakes]);
    const isFailure = line.includes("delivery failed");
    assertEquals(made.response.ok, !isFailure, line);
    const { provider, body_sha256, duration_ms } = made.fields;
    assertEquals([provider, Number(duration_ms) > 0], ["b", true], line);
    const hash = createHash("sha256").update(body).digest("hex");
    assertEquals(body_sha256, isFailure ? hash : undefined, line);
  }
  // The failure of a call belongs to several events.
  assertEquals(overloaded.logFields, {});
});

Deno.test("handleWebhook() logs what is known of the event, and why it failed", async () => {
  const known = { event_id: "evt_1", type: DELETED, subscription_id: "sub_1" };
  const hash = createHash("sha256").update("{").digest("hex");
  const says = "The database refused the event with 22P02: see its row in";
  const unstored = "and the failure could not be stored in failed_events";
  const cases: [expected: object, says: string, string, Setting?][] = [
    [known, "", DELETION],
    [{ event_id: "evt_1", type: "x" }, "", '{"id":"evt_1","type":"x"}'],
    [{}, "", `{"id":{},"type":"${"x".repeat(256)}"}`],
    [{ ...known, status: 500 }, says, DELETION, outcome("failed", "22P02")],
    [{ ...known, status: 503 }, "wait", DELETION, full],
    [{ ...known, status: 500 }, "why", DELETION, mistaken],
    [{ ...known, status: 503 }, `database_unavailable, ${unstored}`, DELETION, {
      ...{ ...down, record: refused },
    }],
    [{ event_id: `sha256:${hash}`, status: 400 }, "The body is not", "{"],
  ];
  for (const [expected, says, body, setting] of cases) {
    const { fields } = await handle(body, setting);
    const { event_id, type, subscription_id, status, error = "" } = fields;
    const given = { event_id, type, subscription_id, status };
    assertEquals(JSON.stringify(given), JSON.stringify(expected));
    assert(String(error).startsWith(says), String(error));
  }
});

Deno.test("handleWebhook() answers what is no delivery, and an unexpected error", async () => {
  const broken = { get: () => JSON.parse("{") };
  const cases: [status: number, edit: (request: Request) => Request][] = [
    [405, ({ url }) => new Request(url)],
    [401, ({ url }) => new Request(url, { method: "POST" })],
    [500, (request) => Object.defineProperty(request, "headers", broken)],
  ];
  for (const [status, edit] of cases) {
    const { response, fields, names } = await handle(DELETION, {}, edit);
    assertEquals([response.status, names], [status, ""]);
    const allow = status === 405 ? "POST" : null;
    assertEquals(response.headers.get("allow"), allow);
    assertEquals(fields.duration_ms, 1);
  }
  const { response } = await handle(DELETION, down);
  assertEquals(response.headers.get("retry-after"), "5");
});
