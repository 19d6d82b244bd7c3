import { assert, assertEquals } from "@std/assert";
import { createHash } from "node:crypto";
import type { Outcome } from "../../../supabase/functions/_shared/billing/database/apply_events.ts";
import { databaseError } from "../../../supabase/functions/_shared/billing/database/database_errors.ts";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import { handleWebhook } from "../../../supabase/functions/billing-webhook/handle_webhook.ts";
import { readProviders } from "../../../supabase/functions/billing-webhook/signatures/signature_providers.ts";
import { hmacHex } from "../../support/sign.ts";
import {
  CHECKOUT,
  CREATED,
  DELETED,
  FAILED,
  fakeDatabase,
  NO_FURTHER,
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
const checkout = (client_reference_id: unknown) =>
  JSON.stringify({
    id: "evt_1",
    type: CHECKOUT,
    created: NOW,
    data: { object: { customer: "cus_1", client_reference_id } },
  });
const dated = (created: number) => event(DELETED, { created });

interface Setting {
  apply?: unknown;
  record?: () => Response;
  ignores?: boolean;
  env?: Readonly<Record<string, string>>;
  fault?: string;
}

const OUTCOMES = ["applied", "duplicate", "stale", "erased"];
const says = (answer: string) => () => Response.json(answer);

async function handle(
  body: string,
  { apply = "applied", record = says("stored"), ...setting }: Setting = {},
  edit = (request: Request) => request,
) {
  const { ignores, env, fault } = setting;
  const lines: [string, string, Record<string, unknown>][] = [];
  const calls: string[] = [];
  let ticks = 0;
  const { database } = fakeDatabase((name) => {
    calls.push(name === "record_failed_event" ? "record" : name);
    return record();
  });

  const headers = { "provider-b-signature": hmacHex(SECRET, body) };
  const url = "http://localhost/functions/v1/billing-webhook";
  const request = edit(new Request(url, { method: "POST", headers, body }));
  const providers = await readProviders({
    PROVIDER_B_SIGNING_SECRET: SECRET,
    ...env,
  });
  const response = await handleWebhook(request, {
    providers,
    database,
    toleranceSeconds: 300,
    ...NO_FURTHER,
    accountFromCheckout: true,
    oncePerInvoice: false,
    handlerTypes: { types: new Set(), ...(fault && { fault }) },
    unmappedSubscriptions: ignores ? "ignore" : "fail",
    body: { maxBytes: 4_096, timeLimitMs: 5_000 },
    apply: ({ provider }) => {
      assertEquals(provider, "b");
      calls.push("apply");
      return OUTCOMES.includes(`${apply}`)
        ? Promise.resolve(apply as Outcome)
        : Promise.reject(apply);
    },
    wakeWorker: (queue) => calls.push(queue),
    log: (level, message, fields = {}) => lines.push([level, message, fields]),
    // Shows the time between two looks.
    clock: () => NOW * 1000 + ticks++,
  });

  assertEquals(lines.length, 1, "each delivery has one line");
  const [[level, message, fields]] = lines as [typeof lines[number]];
  assert(!JSON.stringify(lines).includes("LEAKED"), JSON.stringify(lines));
  assert(Number(fields.duration_ms) > 0 && Number(fields.duration_ms) < 9);
  const outcome = Object.keys(fields.outcomes ?? {})[0] ?? fields.code;
  const line = `${level}: ${message} (${outcome}): ${fields.error ?? ""}`;
  return { request, response, line, fields, calls: calls.join(" ") };
}

const APPLIED = "info: events applied (applied)";
const IGNORED = "info: event ignored (ignored)";
const NO_ACCOUNT = "warn: checkout names no account";
const CONNECTED =
  "info: event of a connected account ignored (connect_ignored)";
const ERASED = "info: event of an erased account ignored (erased)";
const ERASED_PURCHASE = "warn: purchase of an erased account ignored";
const ACKNOWLEDGED =
  "error: failure acknowledged (acknowledged): The database refused";
const KEY_REFUSED = "error: delivery failed (key_refused): ";
const TOO_NEW = "warn: delivery failed (event_invalid): created: must not be";
const REFUSED =
  "error: delivery failed (apply_failed): The database refused the event with 22P02";
const MISTAKEN = "error: delivery failed (internal_error): why";
const MALFORMED = "error: delivery failed (deployment_fault): why";
const LOST =
  "error: delivery failed (failure_not_recorded): database_unavailable, and the failure could not";

const eventOf = (type: string) => JSON.stringify({ id: "evt_1", type });
const ping = eventOf("doctor.ping");
const down = databaseError("57014", "down");
const lost = { apply: down, record: says("applied") };
const nowhere = { apply: down, record: () => refusal("22P02", "LEAKED") };
const refused = { apply: databaseError("22P02", "LEAKED") };
const unmapped = { ignores: true, apply: databaseError("BW005", "LEAKED") };
const overloaded = new DeliveryError("overloaded", "wait");
const full = { apply: overloaded };
const live = { env: { PROVIDER_B_MODE: "live" } };
const env = { PROVIDER_B_FAILURES: "acknowledge" };
const early = { apply: databaseError("BW001", "early") };
const revoked = {
  apply: databaseError(undefined, "no usable answer", { status: 401 }),
  record: () => new Response("{}", { status: 401 }),
};
const connected = event(DELETED, { account: "acct_1" });

const OF_DELETED = `evt_1, ${DELETED}, `;
const DELETED_1 = `${OF_DELETED}sub_1`;
const FAILED_1 = `evt_1, ${FAILED}, sub_1`;
const NOBODYS_AHEAD = event(CREATED, {
  "data.object.metadata": {},
  created: NOW + 301,
});
const OF_CREATED = `evt_1, ${CREATED}, `;
const CREATED_1 = `${OF_CREATED}sub_1`;
const HASHED = `sha256:${createHash("sha256").update("{").digest("hex")}, , `;
/**
 * How the log line begins, what is known of the event, the calls (a queue is one that
 * the worker is woken for), and for which delivery.
 */
const DELIVERIES: [
  line: string,
  known: string,
  calls: string,
  body: string,
  Setting?,
][] = [
  [APPLIED, DELETED_1, "apply", DELETION],
  [APPLIED, FAILED_1, "apply notifications", INVOICE],
  [APPLIED, DELETED_1, "apply", dated(NOW + 300)],
  [APPLIED, `evt_1, ${CHECKOUT}, `, "apply", checkout("acc_1")],
  [APPLIED, `evt_1, ${CHECKOUT}, `, "apply", checkout(null)],
  [NO_ACCOUNT, `evt_1, ${CHECKOUT}, `, "apply", checkout("LEAKED\n")],
  // The first delivery may have ended before it woke the worker.
  [
    "info: events applied (duplicate)",
    FAILED_1,
    "apply notifications",
    INVOICE,
    { apply: "duplicate" },
  ],
  ["info: events applied (stale)", FAILED_1, "apply", INVOICE, {
    apply: "stale",
  }],
  [IGNORED, "evt_1, x, ", "", '{"id":"evt_1","type":"x","data":"LEAKED"}'],
  // Nothing has checked what is ignored.
  [IGNORED, ", , ", "", '{"id":"a\\nLEAKED","type":"a\\nLEAKED"}'],
  [
    "warn: thin event ignored, and its change is lost",
    ", v1.x, ",
    "",
    '{"id":{"x":"LEAKED"},"type":"v1.x"}',
  ],
  [
    "info: event of the other mode ignored (ignored)",
    OF_DELETED,
    "",
    DELETION,
    live,
  ],
  [CONNECTED, OF_DELETED, "", connected],
  [CONNECTED, "evt_1, x, ", "", '{"id":"evt_1","type":"x","account":"a"}'],
  [APPLIED, DELETED_1, "apply", event(DELETED, { account: null })],
  [APPLIED, DELETED_1, "apply", connected, {
    env: { PROVIDER_B_CONNECT: "allow" },
  }],
  [ERASED, FAILED_1, "apply", INVOICE, { apply: "erased" }],
  [ERASED, HASHED, "record", "{", { record: says("erased"), env }],
  [ERASED_PURCHASE, CREATED_1, "apply", event(CREATED), { apply: "erased" }],
  [ERASED_PURCHASE, OF_CREATED, "record", NOBODYS_AHEAD, {
    record: says("erased"),
  }],
  // What it lacked has come meanwhile.
  [
    "error: delivery failed (subscription_unknown): early",
    DELETED_1,
    "apply record retries",
    DELETION,
    {
      ...early,
      record: says("retry"),
    },
  ],
  [KEY_REFUSED, DELETED_1, "apply", DELETION, { apply: revoked.apply, env }],
  [KEY_REFUSED, OF_DELETED, "record", dated(NOW + 301), revoked],
  // Nothing is acknowledged that is not stored.
  [ACKNOWLEDGED, DELETED_1, "apply record retries notifications", DELETION, {
    ...refused,
    env,
  }],
  [LOST, DELETED_1, "apply record", DELETION, { ...nowhere, env }],
  ["error: delivery failed (overloaded): wait", DELETED_1, "apply", DELETION, {
    ...full,
    env,
  }],
  [
    "info: unmapped event ignored (ignored)",
    CREATED_1,
    "apply",
    event(CREATED, { "data.object.metadata": {} }),
    unmapped,
  ],
  // The doctor's event is not stored, whatever is wrong; those of a provider are.
  [MALFORMED, "evt_1, doctor.ping, ", "", ping, { env, fault: "why" }],
  [MALFORMED, "evt_1, ping, ", "record", eventOf("ping"), { fault: "why" }],
  // It was applied before, by a call whose answer was lost.
  [
    "info: duplicate of an applied event (duplicate)",
    DELETED_1,
    "apply record notifications",
    DELETION,
    lost,
  ],
  [
    "warn: delivery failed (body_not_json): The body is not",
    HASHED,
    "record",
    "{",
  ],
  [TOO_NEW, OF_DELETED, "record", dated(NOW + 301)],
  [TOO_NEW, OF_CREATED, "record", NOBODYS_AHEAD, { ignores: true }],
  [REFUSED, DELETED_1, "apply record", DELETION, refused],
  [
    "error: delivery failed (database_unavailable): down",
    FAILED_1,
    "apply record",
    INVOICE,
    {
      apply: down,
      ignores: true,
    },
  ],
  [MISTAKEN, DELETED_1, "apply record", DELETION, { apply: "why" }],
  [MISTAKEN, DELETED_1, "apply record", DELETION, {
    apply: new TypeError("why"),
  }],
];
Deno.test("handleWebhook() applies, ignores or records an event, in one line", async () => {
  for (const [begins, known, expected, body, setting] of DELIVERIES) {
    const { fields, line, calls, response } = await handle(body, setting);

    assert(line.startsWith(begins), line);
    const { event_id = "", type = "", subscription_id = "" } = fields;
    assertEquals(`${event_id}, ${type}, ${subscription_id}`, known, line);
    assertEquals(calls, expected, line);
    const isFailure = line.includes("delivery failed");
    assertEquals(response.ok, !isFailure, line);

    const hash = createHash("sha256").update(body).digest("hex");
    const { provider, body_sha256 } = fields;
    const isHashed = isFailure || line.includes("acknowledged");
    assertEquals([provider, body_sha256], ["b", isHashed ? hash : undefined]);
  }
  // The failure of a call belongs to several events.
  assertEquals(overloaded.logFields, {});
});

const START = ["/functions/v1/billing-webhook", "/billing-webhook", ""];
const PATHS = [
  "/billing-webhook",
  "/billing-webhook/",
  "/billing-webhook?path=/x#y",
  ...START.map((start) => `${start}/api/billing/webhook`),
];
const at = (path: string) => (request: Request) =>
  new Request(`http://localhost${path}`, request);
const encoded = (encoding: string) => (request: Request) => {
  request.headers.set("content-encoding", encoding);
  return request;
};

const REQUESTS: [code: string, ...edits: ((one: Request) => Request)[]][] = [
  ["applied", ...PATHS.map(at), encoded(""), encoded("Identity")],
  ["path_unknown", at("/"), at("/billing-webhook//")],
  ["method_not_allowed", ({ url }) => new Request(url)],
  ["encoding_unsupported", encoded("gzip")],
];
Deno.test("handleWebhook() serves its paths, and drains other requests", async () => {
  for (const [code, ...edits] of REQUESTS) {
    for (const edit of edits) {
      const { line, request } = await handle(DELETION, {}, edit);
      assert(line.includes(`(${code})`), `${line} and not ${code}`);
      assert(request.bodyUsed || request.body === null, line);
    }
  }
});
