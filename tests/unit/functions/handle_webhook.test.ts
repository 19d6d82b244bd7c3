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
import {
  type Answer,
  CREATED,
  DELETED,
  FAILED,
  fakeDatabase,
  NOW,
  refusal,
  stripeEvent,
} from "./fixtures.ts";

const SECRET = "unit-test-of-provider-b";

/** An event as text. What no log line may repeat is in each. */
function event(type: string, changes: Record<string, unknown> = {}): string {
  const note = { "data.object.note": "LEAKED" };
  return JSON.stringify(stripeEvent(type, { ...note, ...changes }));
}
const DELETION = event(DELETED);
const INVOICE = event(FAILED);
const dated = (created: number) => event(DELETED, { created });

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
    ...{ database, toleranceSeconds: 300, unmappedSubscriptions: "fail" },
    body: { maxBytes: 4_096, timeLimitMs: 5_000 },
    apply: async (event) => {
      const [outcome] = await applyEvents([event], { database });
      if (typeof outcome === "string") return outcome;
      throw outcome;
    },
    wakeWorker: () => wakes++,
    log: (level, message, fields = {}) => lines.push([level, message, fields]),
    // Shows the time between two looks.
    clock: () => NOW * 1000 + ticks++,
    ...receiver,
  });
  assertEquals(lines.length, 1, "each delivery has one line");
  const [[level, message, fields]] = lines as [typeof lines[number]];
  assert(!JSON.stringify(lines).includes("LEAKED"), JSON.stringify(lines));
  assert(Number(fields.duration_ms) > 0);
  const names = calls.map(([name]) => name[0]).join("");
  const outcome = Object.keys(fields.outcomes ?? {})[0] ?? fields.code;
  const line = `${level}: ${message} (${outcome})`;
  return { response, line, fields, names, wakes };
}

const IGNORED = "info: event ignored (ignored)";
const THIN =
  "warn: thin event ignored, and its change is lost: at the provider, replace this destination with one that sends snapshot payloads (ignored)";
const UNMAPPED = "info: unmapped event ignored (ignored)";
const BEFORE = "info: duplicate of an applied event (duplicate)";
const OF_OTHER_MODE = "info: event of the other mode ignored (ignored)";
const applied = (outcome: string) => `info: events applied (${outcome})`;
const rejected = (code: string) => `warn: delivery failed (${code})`;
const failed = (code: string) => `error: delivery failed (${code})`;

const down = { apply: () => refusal("57014") };
const lost = { ...down, record: () => Response.json(false) };
const refused = () => refusal("22P02", "LEAKED");
const outcome = (outcome: string, error_code?: string): Setting => {
  return { apply: { outcome, error_code, error: error_code && "LEAKED" } };
};
const ignoring: Setting = { receiver: { unmappedSubscriptions: "ignore" } };
const NOBODYS = { "data.object.metadata": {} };
const unmapped = outcome("failed", "BW005");
const live: Setting = { env: { PROVIDER_B_MODE: "live" } };
const overloaded = new DeliveryError("overloaded", "wait");
const mistaken: Setting = { receiver: { apply: () => Promise.reject("why") } };
const full: Setting = { receiver: { apply: () => Promise.reject(overloaded) } };

/** The log line, calls (a: apply, r: record), and wakes; for which delivery. */
const DELIVERIES: [line: string, calls: string, number, string, Setting?][] = [
  [applied("applied"), "a", 0, DELETION],
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
  [OF_OTHER_MODE, "", 0, DELETION, live],
  [UNMAPPED, "a", 0, event(CREATED, NOBODYS), { ...ignoring, ...unmapped }],
  // It was applied before, by a call whose answer was lost.
  [BEFORE, "ar", 0, DELETION, lost],
  [BEFORE, "ar", 1, INVOICE, lost],
  [rejected("body_not_json"), "r", 0, "{"],
  [rejected("event_invalid"), "r", 0, dated(NOW + 301)],
  [rejected("event_invalid"), "r", 0, event(CREATED, { id: 1 }), ignoring],
  [failed("apply_failed"), "ar", 0, DELETION, outcome("failed", "22P02")],
  [failed("apply_failed"), "ar", 0, DELETION, { apply: refused }],
  [failed("database_unavailable"), "ar", 0, INVOICE, { ...down, ...ignoring }],
  [failed("internal_error"), "r", 0, DELETION, mistaken],
  // An overloaded receiver makes no further call.
  [failed("overloaded"), "", 0, DELETION, full],
  [failed("failure_not_recorded"), "r", 0, "{", { record: refused }],
];
Deno.test("handleWebhook() applies, ignores or records an event, and says so in one line", async () => {
  for (const [line, calls, wakes, body, setting] of DELIVERIES) {
    const made = await handle(body, setting);
    assertEquals([made.line, made.names, made.wakes], [line, calls, wakes]);
    const isFailure = line.includes("delivery failed");
    assertEquals(made.response.ok, !isFailure, line);
    const { provider, body_sha256 } = made.fields;
    const hash = createHash("sha256").update(body).digest("hex");
    assertEquals([provider, body_sha256], ["b", isFailure ? hash : undefined]);
  }
  // The failure of a call belongs to several events.
  assertEquals(overloaded.logFields, {});
});

const KNOWN = { event_id: "evt_1", type: DELETED, subscription_id: "sub_1" };
const HASH = createHash("sha256").update("{").digest("hex");
const REFUSED = "The database refused the event with 22P02: see its row in";
const LOST =
  "database_unavailable, and the failure could not be stored in failed_events";
/** What is known of an event, how the error begins, and the delivery. */
const LOGGED: [known: object, error: string, string, Setting?][] = [
  [KNOWN, "", DELETION],
  [{ event_id: "evt_1", type: "x" }, "", '{"id":"evt_1","type":"x"}'],
  [{}, "", `{"id":{},"type":"${"x".repeat(256)}"}`],
  [KNOWN, REFUSED, DELETION, outcome("failed", "22P02")],
  [KNOWN, "wait", DELETION, full],
  [KNOWN, "why", DELETION, mistaken],
  [KNOWN, LOST, DELETION, { ...down, record: refused }],
  [{ event_id: `sha256:${HASH}` }, "The body is not", "{"],
];
Deno.test("handleWebhook() logs what is known of the event, and why it failed", async () => {
  for (const [known, says, body, setting] of LOGGED) {
    const { event_id, type, subscription_id, error = "" } =
      (await handle(body, setting)).fields;
    const given = { event_id, type, subscription_id };
    assertEquals(JSON.stringify(given), JSON.stringify(known));
    assert(String(error).startsWith(says), String(error));
  }
});

Deno.test("handleWebhook() answers with the headers of the status, whatever is thrown", async () => {
  const broken = { get: () => JSON.parse("{") };
  type Edit = (request: Request) => Request;
  const cases: [allow: string | null, later: string | null, Edit, Setting?][] =
    [
      ["POST", null, ({ url }) => new Request(url)],
      [null, null, (one) => Object.defineProperty(one, "headers", broken)],
      [null, "5", (one) => one, full],
    ];
  for (const [allow, later, edit, setting] of cases) {
    const { response: { ok, headers } } = await handle(DELETION, setting, edit);
    const given = [headers.get("allow"), headers.get("retry-after")];
    assertEquals([ok, ...given], [false, allow, later]);
  }
});
