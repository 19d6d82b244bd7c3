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
  let wakes = 0;
  let ticks = 0;
  const { database, calls } = fakeDatabase((...call) => {
    if (call[0] === "record_failed_event") {
      return record?.(...call) ?? Response.json(true);
    }
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
  const names = calls.map(([name]) => name.split("_")[0]).join();
  const outcome = Object.keys(fields.outcomes ?? {})[0] ?? fields.code;
  const line = `${level}: ${message} (${outcome})`;
  return { response, line, fields, calls, names, wakes };
}

const IGNORED = "info: event ignored (ignored)";
const THIN =
  "warn: thin event ignored, and its change is lost: at the provider, replace this destination with one that sends snapshot payloads (ignored)";
const BEFORE = "info: duplicate of an applied event (duplicate)";
const FAILED = "delivery failed";
const UNSTORED = "error: delivery failed (failure_not_recorded)";

const down = { apply: () => refusal("57014") };
const lost = { ...down, record: () => Response.json(false) };
const refused = () => refusal("22P02", "LEAKED");
const row = (error_code: string) => {
  return { apply: { outcome: "failed", error_code, error: "LEAKED" } };
};
const ignoring: Setting = { receiver: { unmappedSubscriptions: "ignore" } };
const live: Setting = { env: { PROVIDER_B_MODE: "live" } };
const overloaded = new DeliveryError("overloaded", "wait");
const full: Setting = { receiver: { apply: () => Promise.reject(overloaded) } };

/** The log line, the calls of the database, and wakes; for which delivery. */
const DELIVERIES: [line: string, calls: string, number, string, Setting?][] = [
  ...["applied", "duplicate", "stale"].flatMap((
    outcome,
  ): typeof DELIVERIES => [
    [`info: events applied (${outcome})`, "apply", 0, DELETION, {
      apply: { outcome },
    }],
    // For a duplicate too: the first may have ended before it woke the worker.
    [
      `info: events applied (${outcome})`,
      "apply",
      outcome === "stale" ? 0 : 1,
      INVOICE,
      { apply: { outcome } },
    ],
  ]),
  ["info: events applied (applied)", "apply", 0, `\ufeff${DELETION}`],
  ["info: events applied (applied)", "apply", 0, dated(NOW + 300)],
  [IGNORED, "", 0, '{"id":"evt_1","type":"x","data":"LEAKED"}'],
  // Nothing has checked what is ignored.
  [IGNORED, "", 0, '{"id":"a\\nLEAKED","type":"a\\nLEAKED"}'],
  [THIN, "", 0, `{"id":{"x":"LEAKED"},"type":"v1.${DELETED}"}`],
  [
    "info: event of the other mode ignored (ignored)",
    ...["", 0, DELETION.replace("{", '{"livemode":false,'), live] as const,
  ],
  ["info: unmapped event ignored (ignored)", "", 0, CREATION, ignoring],
  // It was applied before, by a call whose answer was lost.
  [BEFORE, "apply,record", 0, DELETION, lost],
  [BEFORE, "apply,record", 1, INVOICE, lost],
  [`warn: ${FAILED} (body_not_json)`, "record", 0, "{"],
  [`warn: ${FAILED} (event_invalid)`, "record", 0, dated(NOW + 301)],
  [`warn: ${FAILED} (event_invalid)`, "record", 0, CREATION],
  [
    `warn: ${FAILED} (event_invalid)`,
    "record",
    0,
    event(DELETED, {}),
    ignoring,
  ],
  [
    `error: ${FAILED} (apply_failed)`,
    ...["apply,record", 0, DELETION, row("22P02")] as const,
  ],
  [
    `error: ${FAILED} (apply_failed)`,
    ...["apply,record", 0, DELETION, { apply: refused }] as const,
  ],
  [
    `error: ${FAILED} (database_unavailable)`,
    ...["apply,record", 0, INVOICE, { ...down, ...ignoring }] as const,
  ],
  // An overloaded receiver makes no further call.
  [`error: ${FAILED} (overloaded)`, "", 0, DELETION, full],
  [UNSTORED, "apply,record", 0, DELETION, { ...down, record: refused }],
  [UNSTORED, "record", 0, "{", { record: down.apply }],
];
Deno.test("handleWebhook() applies, ignores or records an event, and says so in one line", async () => {
  for (const [line, calls, wakes, body, setting] of DELIVERIES) {
    const made = await handle(body, setting);
    assertEquals([made.line, made.names, made.wakes], [line, calls, wakes]);
    const isFailure = line.includes(FAILED);
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
    [{ ...known, status: 500 }, says, DELETION, row("22P02")],
    [{ ...known, status: 503 }, "wait", DELETION, full],
    [{ ...known, status: 503 }, `database_unavailable, ${unstored}`, DELETION, {
      ...{ ...down, record: refused },
    }],
    [{ event_id: `sha256:${hash}`, status: 400 }, "The body is not", "{"],
  ];
  for (const [expected, says, body, setting] of cases) {
    const { fields } = await handle(body, setting);
    const { event_id, type, subscription_id, status, error = "" } = fields;
    const given = { event_id, type, subscription_id, status };
    const nothing = { event_id: undefined, type: undefined, status: undefined };
    const all = { subscription_id: undefined, ...nothing, ...expected };
    assertEquals(given, { ...all });
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
