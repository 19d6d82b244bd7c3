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

/** What becomes of a signed body: the reply, and what was logged and called. */
async function handle(
  body: string,
  { apply = { outcome: "applied" }, record, receiver, env }: Setting = {},
  edit = (request: Request) => request,
) {
  const lines: [string, string, Record<string, unknown>][] = [];
  let [wakes, ticks] = ["", 0];
  const { database, calls } = fakeDatabase((...call) => {
    const isRecord = call[0] === "record_failed_event";
    if (isRecord) return record?.(...call) ?? Response.json(true);
    return typeof apply === "function"
      ? apply(...call)
      : Response.json([{ place: 1, ...apply }]);
  });
  const headers = { "provider-b-signature": hmacHex(SECRET, body) };
  const url = "http://localhost/functions/v1/billing-webhook";
  const request = edit(new Request(url, { method: "POST", headers, body }));
  const secret = { PROVIDER_B_SIGNING_SECRET: SECRET };
  const response = await handleWebhook(request, {
    providers: await readProviders({ ...secret, ...env }),
    ...{ database, toleranceSeconds: 300, unmappedSubscriptions: "fail" },
    body: { maxBytes: 4_096, timeLimitMs: 5_000 },
    apply: async (event) => {
      const [outcome] = await applyEvents([event], { database });
      if (typeof outcome === "string") return outcome;
      throw outcome;
    },
    wakeWorker: () => wakes += "w",
    log: (level, message, fields = {}) => lines.push([level, message, fields]),
    // Shows the time between two looks.
    clock: () => NOW * 1000 + ticks++,
    ...receiver,
  });
  assertEquals(lines.length, 1, "each delivery has one line");
  const [[level, message, fields]] = lines as [typeof lines[number]];
  assert(!JSON.stringify(lines).includes("LEAKED"), JSON.stringify(lines));
  assert(Number(fields.duration_ms) > 0 && Number(fields.duration_ms) < 9);
  const outcome = Object.keys(fields.outcomes ?? {})[0] ?? fields.code;
  const line = `${level}: ${message} (${outcome}): ${fields.error ?? ""}`;
  const names = calls.map(([name]) => name[0]).join("") + wakes;
  return { request, response, line, fields, names };
}

const APPLIED = "info: events applied (applied)";
const DUPLICATE = "info: events applied (duplicate)";
const STALE = "info: events applied (stale)";
const IGNORED = "info: event ignored (ignored)";
const THIN =
  "warn: thin event ignored, and its change is lost: at the provider, replace this destination with one that sends snapshot payloads (ignored)";
const UNMAPPED = "info: unmapped event ignored (ignored)";
const BEFORE = "info: duplicate of an applied event (duplicate)";
const OF_OTHER_MODE = "info: event of the other mode ignored (ignored)";
const REJECTED = "warn: delivery failed";
const FAILURE = "error: delivery failed";
const APPLY_FAILED =
  `${FAILURE} (apply_failed): The database refused the event with 22P02: see its row in`;
const LOST =
  `${FAILURE} (failure_not_recorded): database_unavailable, and the failure could not be stored in failed_events: `;
const NOT_MY_TIME = `${REJECTED} (event_invalid): created: must not be more`;

const down = { apply: () => refusal("57014") };
const lost = { ...down, record: () => Response.json(false) };
const refused = () => refusal("22P02", "LEAKED");
const outcome = (outcome: string, error_code?: string): Setting => {
  return { apply: { outcome, error_code, error: error_code && "LEAKED" } };
};
const ignoring: Setting = { receiver: { unmappedSubscriptions: "ignore" } };
const NOBODYS = event(CREATED, { "data.object.metadata": {} });
const unmapped = { ...ignoring, ...outcome("failed", "BW005") };
const live: Setting = { env: { PROVIDER_B_MODE: "live" } };
const overloaded = new DeliveryError("overloaded", "wait");
const mistaken: Setting = { receiver: { apply: () => Promise.reject("why") } };
const full: Setting = { receiver: { apply: () => Promise.reject(overloaded) } };

const DELETED_1 = `evt_1, ${DELETED}, sub_1`;
const FAILED_1 = `evt_1, ${FAILED}, sub_1`;
const HASHED = `sha256:${createHash("sha256").update("{").digest("hex")}, , `;
/**
 * How the log line begins, what is known of the event, the calls (a: apply, r:
 * record, w: wake), and for which delivery.
 */
const DELIVERIES: [line: string, known: string, string, string, Setting?][] = [
  [APPLIED, DELETED_1, "a", DELETION],
  [APPLIED, FAILED_1, "aw", INVOICE],
  // The first delivery may have ended before it woke the worker.
  [DUPLICATE, FAILED_1, "aw", INVOICE, outcome("duplicate")],
  [STALE, FAILED_1, "a", INVOICE, outcome("stale")],
  [APPLIED, DELETED_1, "a", `\ufeff${DELETION}`],
  [APPLIED, DELETED_1, "a", dated(NOW + 300)],
  [IGNORED, "evt_1, x, ", "", '{"id":"evt_1","type":"x","data":"LEAKED"}'],
  // Nothing has checked what is ignored.
  [IGNORED, ", , ", "", '{"id":"a\\nLEAKED","type":"a\\nLEAKED"}'],
  [THIN, ", v1.x, ", "", '{"id":{"x":"LEAKED"},"type":"v1.x"}'],
  [OF_OTHER_MODE, `evt_1, ${DELETED}, `, "", DELETION, live],
  [UNMAPPED, `evt_1, ${CREATED}, sub_1`, "a", NOBODYS, unmapped],
  // It was applied before, by a call whose answer was lost.
  [BEFORE, DELETED_1, "ar", DELETION, lost],
  [BEFORE, FAILED_1, "arw", INVOICE, lost],
  [`${REJECTED} (body_not_json): The body is not`, HASHED, "r", "{"],
  [NOT_MY_TIME, `evt_1, ${DELETED}, `, "r", dated(NOW + 301)],
  [APPLY_FAILED, DELETED_1, "ar", DELETION, outcome("failed", "22P02")],
  [APPLY_FAILED, DELETED_1, "ar", DELETION, { apply: refused }],
  [`${FAILURE} (database_unavailable): `, FAILED_1, "ar", INVOICE, {
    ...{ ...down, ...ignoring },
  }],
  [`${FAILURE} (internal_error): why`, DELETED_1, "r", DELETION, mistaken],
  // An overloaded receiver makes no further call.
  [`${FAILURE} (overloaded): wait`, DELETED_1, "", DELETION, full],
  [LOST, DELETED_1, "ar", DELETION, { ...down, record: refused }],
];
Deno.test("handleWebhook() applies, ignores or records an event, and says so in one line", async () => {
  for (const [begins, known, names, body, setting] of DELIVERIES) {
    const { fields, line, ...made } = await handle(body, setting);
    assert(line.startsWith(begins), line);
    const { event_id = "", type = "", subscription_id = "" } = fields;
    const given = `${event_id}, ${type}, ${subscription_id}`;
    assertEquals([given, made.names], [known, names], line);
    const isFailure = line.includes("delivery failed");
    assertEquals(made.response.ok, !isFailure, line);
    const hash = createHash("sha256").update(body).digest("hex");
    const { provider, body_sha256 } = fields;
    assertEquals([provider, body_sha256], ["b", isFailure ? hash : undefined]);
  }
  // The failure of a call belongs to several events.
  assertEquals(overloaded.logFields, {});
});

const START = ["/functions/v1/billing-webhook", "/billing-webhook", ""];
const PATHS = [
  ...["/billing-webhook", "/billing-webhook/", "/billing-webhook?path=/x#y"],
  ...START.map((start) => `${start}/api/billing/webhook`),
];
const at = (path: string) => (request: Request) =>
  new Request(`http://localhost${path}`, request);
const encoded = (encoding: string) => (request: Request) => {
  request.headers.set("content-encoding", encoding);
  return request;
};
/** As some servers make a request. */
const odd = (name: string, get: () => unknown) => (request: Request) =>
  Object.defineProperty(request, name, { get });
const broken = () => JSON.parse("{");

/** What becomes of requests; the catalogue has more. */
const REQUESTS: [code: string, ...edits: ((one: Request) => Request)[]][] = [
  ["applied", ...PATHS.map(at), ...["", "identity", "Identity"].map(encoded)],
  ["path_unknown", ...["/", "//billing-webhook", "/billing-webhook;x"].map(at)],
  ["path_unknown", at("/billing-webhook//"), odd("url", () => "*")],
  ["path_unknown", odd("url", broken)],
  ["method_not_allowed", ({ url }) => new Request(url)],
  ["encoding_unsupported", ...["gzip", "gzip, identity"].map(encoded)],
  ["body_too_large", (one) => new Request(one, { body: "x".repeat(4_097) })],
  ["internal_error", odd("headers", () => ({ get: broken }))],
];
Deno.test("handleWebhook() serves its paths and methods, and reads the body of all other requests", async () => {
  for (const [code, ...edits] of REQUESTS) {
    for (const edit of edits) {
      const { line, request } = await handle(DELETION, {}, edit);
      assert(line.includes(`(${code})`), `${line} and not ${code}`);
      const isRead = request.bodyUsed || request.body === null;
      assertEquals(isRead, code !== "internal_error", line);
    }
  }
});
