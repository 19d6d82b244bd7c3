import { assert, assertEquals } from "@std/assert";
import { createHash } from "node:crypto";
import { applyEvents } from "../../../supabase/functions/_shared/billing/apply_events.ts";
import {
  ANSWERS,
  DeliveryError,
  type ErrorCode,
} from "../../../supabase/functions/_shared/billing/errors.ts";
import { gather } from "../../../supabase/functions/billing-webhook/gather.ts";
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
  /** Of the database: an outcome, or what it says. */
  readonly apply?: Record<string, unknown> | string | Answer;
  readonly record?: boolean | Answer;
  readonly receiver?: Partial<Receiver>;
  readonly env?: Record<string, string>;
}

/** What becomes of a signed body: reply, log line, calls and wakes. */
async function handle(
  body: string | Uint8Array<ArrayBuffer>,
  { apply = "applied", record = true, receiver = {}, env = {} }: Setting = {},
  edit = (request: Request) => request,
) {
  const lines: [string, string, Record<string, unknown>][] = [];
  let wakes = 0;
  let ticks = 0;
  const { database, calls } = fakeDatabase((...call) => {
    const answer = call[0] === "apply_events" ? apply : record;
    if (typeof answer === "function") return answer(...call);
    if (typeof answer === "boolean") return Response.json(answer);
    const row = typeof answer === "string" ? { outcome: answer } : answer;
    return Response.json([{ place: 1, ...row }]);
  });
  const request = new Request("http://localhost/billing-webhook", {
    method: "POST",
    headers: { "provider-b-signature": hmacHex(SECRET, body) },
    body,
  });
  const response = await handleWebhook(edit(request), {
    providers: await readProviders({
      PROVIDER_B_SIGNING_SECRET: SECRET,
      ...env,
    }),
    toleranceSeconds: 300,
    body: { maxBytes: 4_096, timeLimitMs: 5_000 },
    apply: gather(
      (events) => applyEvents(events, { database }),
      { maxTogether: 1, maxWaiting: 1, maxWaitMs: 1_000 },
    ),
    database,
    unmappedSubscriptions: "fail",
    wakeWorker: () => wakes++,
    log: (level, message, fields = {}) => lines.push([level, message, fields]),
    // Shows the time between two looks.
    clock: () => NOW * 1000 + ticks++,
    ...receiver,
  });
  const { status, headers } = response;
  const text = await response.text();
  assertEquals(lines.length, 1, "each delivery has one line");
  const [[level, message, fields]] = lines as [typeof lines[number]];
  assert(!JSON.stringify(lines).includes("LEAKED"), JSON.stringify(lines));
  const names = calls.map(([name]) => name);
  return { status, headers, text, level, message, fields, calls, names, wakes };
}

const down: Setting = { apply: () => refusal("57014") };
const lost: Setting = { ...down, record: false };
const ignoring: Setting = { receiver: { unmappedSubscriptions: "ignore" } };
const live: Setting = { env: { PROVIDER_B_MODE: "live" } };
const APPLIED = "events applied";
const IGNORED = "event ignored";
const THIN =
  "thin event ignored, and its change is lost: at the provider, replace this destination with one that sends snapshot payloads";
const none = undefined;
const unread = { event_id: none, type: none };

/** Deliveries that are acknowledged: outcome, log line, and wakes. */
const ACKNOWLEDGED: [
  outcome: string,
  message: string,
  body: string,
  differs?: object,
  setting?: Setting,
  wakes?: number,
][] = [
  ...["applied", "duplicate", "stale"].flatMap((
    apply,
  ): typeof ACKNOWLEDGED => [
    [apply, APPLIED, DELETION, {}, { apply }],
    // For a duplicate too: the first may have ended before it woke the worker.
    [apply, APPLIED, INVOICE, {}, { apply }, apply === "stale" ? 0 : 1],
  ]),
  ["applied", APPLIED, `\ufeff${DELETION}`],
  ["applied", APPLIED, dated(NOW + 300)],
  ["ignored", IGNORED, '{"id":"evt_1","type":"x","data":"LEAKED"}'],
  // Nothing has checked what is ignored.
  ["ignored", IGNORED, '{"id":"a\\nLEAKED","type":"a\\nLEAKED"}', unread],
  ["ignored", IGNORED, `{"id":{},"type":"${"x".repeat(256)}"}`, unread],
  ["ignored", THIN, `{"id":"evt_1","type":"v1.${DELETED}"}`],
  [
    ...["ignored", "event of the other mode ignored"] as const,
    ...[DELETION.replace("{", '{"livemode":false,'), {}, live] as const,
  ],
  ["ignored", "unmapped event ignored", CREATION, {
    code: "event_invalid",
  }, ignoring],
  // It was applied before, by a call whose answer was lost.
  ...[DELETION, INVOICE].map((body, wakes): (typeof ACKNOWLEDGED)[number] => [
    ...["duplicate", "duplicate of an applied event", body] as const,
    ...[{ code: "database_unavailable" }, lost, wakes] as const,
  ]),
];
Deno.test("handleWebhook() acknowledges what is applied or has no effect, in one line", async () => {
  for (const row of ACKNOWLEDGED) {
    const [outcome, message, body, differs, setting, wakes = 0] = row;
    const made = await handle(body, setting);
    assertEquals([made.status, made.text, made.message], [200, "OK", message]);
    assertEquals(made.level, message === THIN ? "warn" : "info");
    const { duration_ms, subscription_id, ...fields } = made.fields;
    assert(Number(duration_ms) > 0);
    const { type } = JSON.parse(body.replace("\ufeff", ""));
    const known = { provider: "b", event_id: "evt_1", type };
    const outcomes = { [outcome]: 1 };
    assertEquals(fields, { ...known, ...differs, outcomes }, message);
    const isApplied = message === APPLIED;
    const isKnown = isApplied || setting === lost;
    assertEquals(subscription_id, isKnown ? "sub_1" : undefined, message);
    const names = setting === lost
      ? ["apply_events", "record_failed_event"]
      : isApplied
      ? ["apply_events"]
      : [];
    assertEquals([made.names, made.wakes], [names, wakes], message);
    if (!isApplied) continue;
    const [sent] = made.calls[0]![1].events as { provider: string }[];
    assertEquals(sent?.provider, "b");
  }
});

const sha256 = (text: string) =>
  createHash("sha256").update(text).digest("hex");
const REFUSED = "The database refused the event with 22P02";
const UNSTORED = "and the failure could not be stored in failed_events";
const refused = () => refusal("22P02", "LEAKED");
const failed = (error_code: string, error = "says"): Setting => ({
  apply: { outcome: "failed", error_code, error },
});
const overloaded = new DeliveryError("overloaded", "wait");
const full: Setting = { receiver: { apply: () => Promise.reject(overloaded) } };

/** Deliveries that fail, and what the log says of the reason. */
const FAILED: [code: ErrorCode, says: string, body: string, Setting?][] = [
  ["body_not_json", "not valid JSON", "{"],
  ["event_invalid", "created: must", dated(NOW + 301)],
  ["event_invalid", "data.object.items", CREATION],
  ["event_invalid", "object.id is", event(DELETED, {}), ignoring],
  ["subscription_unknown", "says", DELETION, failed("BW001")],
  ["apply_failed", REFUSED, DELETION, failed("22P02", "LEAKED")],
  ["apply_failed", REFUSED, DELETION, { apply: refused }],
  ["database_unavailable", "57014: says", DELETION, down],
  ["database_unavailable", "57014: says", DELETION, { ...down, ...ignoring }],
  ["overloaded", "wait", DELETION, full],
  [
    "failure_not_recorded",
    `database_unavailable, ${UNSTORED}: ${REFUSED}`,
    DELETION,
    {
      ...down,
      record: refused,
    },
  ],
  ["failure_not_recorded", `body_not_json, ${UNSTORED}: Database call`, "{", {
    record: () => refusal("57014"),
  }],
];
Deno.test("handleWebhook() records what fails, and says why in one line", async () => {
  for (const [code, says, body, setting] of FAILED) {
    const { status } = ANSWERS[code];
    const made = await handle(body, setting);
    assertEquals([made.status, made.message], [status, "delivery failed"]);
    assertEquals(made.level, status < 500 ? "warn" : "error");
    assertEquals(made.headers.get("retry-after"), status === 503 ? "5" : null);
    const filed = made.names.includes("record_failed_event");
    assertEquals(filed, code !== "overloaded");
    const sha = sha256(body);
    const { error, duration_ms: _, type: __, ...fields } = made.fields;
    assert(String(error).includes(says), String(error));
    assertEquals({ subscription_id: "sub_1", ...fields }, {
      provider: "b",
      event_id: body === "{" ? `sha256:${sha}` : "evt_1",
      subscription_id: "sub_1",
      body_sha256: sha,
      code,
      status,
    });
  }
  const { calls } = await handle(DELETION, failed("BW001"));
  assertEquals(calls[1], ["record_failed_event", {
    p_provider: "b",
    p_event_id: "evt_1",
    p_type: DELETED,
    p_kind: "deletion",
    p_subscription_id: "sub_1",
    p_occurred_at: new Date(NOW * 1000).toISOString(),
    p_body: DELETION,
    p_body_encoding: "text",
    p_error_code: "subscription_unknown",
    p_error: "says",
  }]);
  // The failure of a call belongs to several events.
  assertEquals(overloaded.logFields, {});
});

Deno.test("handleWebhook() answers what is no delivery, and an unexpected error", async () => {
  const broken = { get: () => JSON.parse("{") };
  const cases: [status: number, edit: (request: Request) => Request][] = [
    [405, ({ url }) => new Request(url)],
    [401, ({ url }) => new Request(url, { method: "POST" })],
    [500, (request) => Object.defineProperty(request, "headers", broken)],
  ];
  for (const [status, edit] of cases) {
    const made = await handle(DELETION, {}, edit);
    assertEquals([made.status, made.calls], [status, []]);
    assertEquals(made.level, status < 500 ? "warn" : "error");
    assertEquals(made.headers.get("allow"), status === 405 ? "POST" : null);
    assertEquals(made.fields.duration_ms, 1);
  }
});
