import { assert, assertEquals, assertMatch } from "@std/assert";
import fc from "fast-check";
import { applyEvents } from "../../../supabase/functions/_shared/billing/apply_events.ts";
import { createClient } from "../../../supabase/functions/_shared/billing/database.ts";
import type { Log } from "../../../supabase/functions/_shared/billing/log.ts";
import { gather } from "../../../supabase/functions/billing-webhook/gather.ts";
import { handleWebhook } from "../../../supabase/functions/billing-webhook/handle_webhook.ts";
import { readProviders } from "../../../supabase/functions/billing-webhook/providers.ts";
import { hmacHex, stripeHeader } from "../../support/sign.ts";

const NOW = 1_793_700_000;
const SECRET_A = "whsec_SECRETunit-of-provider-A";
const SECRET_B = "SECRETunit-of-provider-B";
/** Stands in every body, so that a payload in the log is found. */
const MARK = "PAYLOAD-MARK";
const DELETION = JSON.stringify({
  id: "evt_1",
  type: "customer.subscription.deleted",
  created: NOW,
  data: { object: { id: "sub_1", note: MARK } },
});

interface Line {
  readonly level: string;
  readonly message: string;
  readonly fields: Record<string, unknown>;
}

interface Setting {
  readonly env?: Record<string, string>;
  /** How the database answers; it applies and records all unless given. */
  readonly answer?: (name: string) => Response | Promise<Response>;
  readonly timeLimitMs?: number;
}

/** Handles one request; the answer, and what happened besides. */
async function handle(request: Request, setting: Setting = {}) {
  const calls: string[] = [];
  const lines: Line[] = [];
  let ticks = 0;
  const database = createClient({
    supabaseUrl: "http://database.test",
    secretKey: "sb_secret_unit",
  }, {
    fetch: async (input) => {
      const name = String(input).split("/").pop()!;
      calls.push(name);
      return await (setting.answer ?? agree)(name);
    },
  });
  const log: Log = (level, message, fields = {}) =>
    lines.push({ level, message, fields });
  const response = await handleWebhook(request, {
    providers: await readProviders(
      setting.env ??
        {
          PROVIDER_A_SIGNING_SECRET: SECRET_A,
          PROVIDER_B_SIGNING_SECRET: SECRET_B,
        },
    ),
    toleranceSeconds: 300,
    body: { maxBytes: 4_096, timeLimitMs: setting.timeLimitMs ?? 5_000 },
    apply: gather(
      (events) => applyEvents(events, { database, log, clock: () => 0 }),
      { maxTogether: 1, maxWaiting: 1, maxWaitMs: 1_000 },
    ),
    database,
    unmappedSubscriptions: "fail",
    wakeWorker: () => {},
    log,
    // A clock that shows the time between two looks.
    clock: () => NOW * 1000 + 7 * ticks++,
  });
  return {
    status: response.status,
    text: await response.text(),
    headers: response.headers,
    calls,
    lines,
  };
}

function agree(name: string): Response {
  return name === "record_failed_event"
    ? Response.json(true)
    : Response.json([{ place: 1, outcome: "applied" }]);
}

function post(
  body: BodyInit | null,
  headers: HeadersInit = {},
  path = "/billing-webhook",
): Request {
  return new Request(`http://localhost${path}`, {
    method: "POST",
    body,
    headers,
  });
}

/** A delivery of provider B, signed. */
function signed(body: string | Uint8Array<ArrayBuffer>): Request {
  return post(body, { "provider-b-signature": hmacHex(SECRET_B, body) });
}

/** Passes when a failure has one line, with code and status, and no secret. */
function assertOneLine(
  lines: readonly Line[],
  expected: { code: string; status: number },
): void {
  assertEquals(lines.length, 1, JSON.stringify(lines));
  const [line] = lines;
  assertEquals(line?.message, "delivery failed");
  assertEquals(line?.level, expected.status < 500 ? "warn" : "error");
  assertEquals(
    { code: line?.fields.code, status: line?.fields.status },
    expected,
  );
  assertEquals(typeof line?.fields.duration_ms, "number");
  assertEquals(typeof line?.fields.error, "string");
  assertDiscreet(lines);
}

function assertDiscreet(lines: readonly Line[]): void {
  const text = JSON.stringify(lines);
  for (const secret of [MARK, "SECRETunit", "sb_secret", "v1="]) {
    assert(!text.includes(secret), `${secret} in ${text}`);
  }
  // What looks like a signature, and is not the hash of the body.
  const withoutHash = text.replaceAll(/sha256"?:"?[0-9a-f]{64}"/g, "");
  assert(!/[0-9a-f]{64}/.test(withoutHash), text);
}

Deno.test("handleWebhook() answers 200 and OK to an event that is applied", async () => {
  for (
    const request of [
      signed(DELETION),
      post(DELETION, {
        "provider-a-signature": await stripeHeader(DELETION, {
          secret: SECRET_A,
          timestamp: NOW,
        }),
      }, "/functions/v1/billing-webhook/api/billing/webhook?region=x"),
    ]
  ) {
    const { status, text, calls, lines } = await handle(request);
    assertEquals([status, text], [200, "OK"]);
    assertEquals(calls, ["apply_billing_events"]);
    assertEquals(lines.map(({ level }) => level), ["info"]);
    assertDiscreet(lines);
  }
});

Deno.test("handleWebhook() answers 200 to what is duplicate, stale or ignored", async () => {
  for (const outcome of ["duplicate", "stale"]) {
    const { status, text } = await handle(signed(DELETION), {
      answer: () => Response.json([{ place: 1, outcome }]),
    });
    assertEquals([status, text], [200, "OK"]);
  }
  const { status, text, calls, lines } = await handle(
    signed(`{"id":"evt_2","type":"charge.failed","data":"${MARK}"}`),
  );
  assertEquals([status, text, calls.length], [200, "OK", 0]);
  assertEquals(lines.map(({ message }) => message), ["event ignored"]);
  assertDiscreet(lines);
});

const OLD = NOW - 301;
/** What is refused before anything is verified: no call, one line. */
const REFUSED: Record<
  string,
  [make: () => Request | Promise<Request>, code: string, status: number]
> = {
  "another path": [
    () => post(MARK, {}, "/elsewhere"),
    "path_unknown",
    404,
  ],
  "another method": [
    () => new Request("http://localhost/billing-webhook"),
    "method_not_allowed",
    405,
  ],
  "a compressed body": [
    () => post(MARK, { "content-encoding": "gzip" }),
    "encoding_unsupported",
    415,
  ],
  "a large body": [
    () => signed(`${MARK}${"x".repeat(4_096)}`),
    "body_too_large",
    413,
  ],
  "no signature": [() => post(DELETION), "signature_missing", 401],
  "an empty signature": [
    () => post(DELETION, { "provider-a-signature": "" }),
    "signature_malformed",
    401,
  ],
  "a malformed signature": [
    () => post(DELETION, { "provider-a-signature": "v1=SECRETunit" }),
    "signature_malformed",
    401,
  ],
  "a wrong signature": [
    () => post(DELETION, { "provider-b-signature": hmacHex("x", DELETION) }),
    "signature_mismatch",
    401,
  ],
  "two providers' signatures": [
    () =>
      post(DELETION, {
        "provider-a-signature": "v1=x",
        "provider-b-signature": hmacHex(SECRET_B, DELETION),
      }),
    "signature_ambiguous",
    401,
  ],
  "an old signature": [
    async () =>
      post(DELETION, {
        "provider-a-signature": await stripeHeader(DELETION, {
          secret: SECRET_A,
          timestamp: OLD,
        }),
      }),
    "signature_too_old",
    401,
  ],
  "a signature ahead": [
    async () =>
      post(DELETION, {
        "provider-a-signature": await stripeHeader(DELETION, {
          secret: SECRET_A,
          timestamp: NOW + 301,
        }),
      }),
    "signature_too_far_ahead",
    401,
  ],
};
for (const [name, [make, code, status]] of Object.entries(REFUSED)) {
  Deno.test(`handleWebhook() answers ${status} to ${name} and stores nothing`, async () => {
    const answer = await handle(await make());
    assertEquals(answer.status, status);
    assertEquals(answer.text, status === 401 ? "Invalid signature" : "");
    assertEquals(answer.calls, []);
    assertOneLine(answer.lines, { code, status });
  });
}

Deno.test("handleWebhook() answers 408 to a body that does not arrive", async () => {
  const silent = new ReadableStream({ pull: () => new Promise(() => {}) });
  const { status, calls, lines } = await handle(
    post(silent, { "provider-b-signature": "0".repeat(64) }),
    { timeLimitMs: 20 },
  );
  assertEquals([status, calls.length], [408, 0]);
  assertOneLine(lines, { code: "body_too_slow", status });
});

Deno.test("handleWebhook() does not crash if the sender goes away", async () => {
  const broken = new ReadableStream({
    pull: () => Promise.reject(new TypeError("connection reset")),
  });
  const { calls, lines } = await handle(post(broken));
  assertEquals(calls, []);
  assertOneLine(lines, { code: "body_incomplete", status: 400 });
});

Deno.test("handleWebhook() answers 500 for a provider that is not configured, and says so in the log", async () => {
  const secrets: Record<string, string>[] = [
    {},
    { PROVIDER_B_SIGNING_SECRET: "" },
    { PROVIDER_B_SIGNING_SECRET: "whsec_" },
    { PROVIDER_B_SIGNING_SECRET: `${SECRET_B}\n` },
  ];
  for (const env of secrets) {
    const { status, calls, lines, text } = await handle(signed(DELETION), {
      env,
    });
    assertEquals([status, calls.length], [500, 0]);
    assert(!text.includes("PROVIDER"), text);
    assertOneLine(lines, { code: "provider_misconfigured", status });
    assertMatch(String(lines[0]?.fields.error), /PROVIDER_B_SIGNING_SECRET/);
  }
});

/** Authentic bodies that fail: filed, and answered so. */
const FILED: Record<string, [body: string, code: string, status: number]> = {
  "an empty body": ["", "body_empty", 400],
  "malformed JSON": [`{"${MARK}`, "body_not_json", 400],
  "what is no event": [`["${MARK}"]`, "event_invalid", 422],
  "an event with a bad field": [
    DELETION.replace('"sub_1"', `"${MARK}\\n"`),
    "event_invalid",
    422,
  ],
};
for (const [name, [body, code, status]] of Object.entries(FILED)) {
  Deno.test(`handleWebhook() answers ${status} to ${name} and stores it`, async () => {
    const answer = await handle(signed(body));
    assertEquals(answer.status, status);
    assertMatch(answer.text, /^[A-Z][\w -]+$/);
    assertEquals(answer.calls, ["record_failed_event"]);
    assertOneLine(answer.lines, { code, status });
    const { fields } = answer.lines[0]!;
    assertEquals(fields.provider, "b");
    assertMatch(String(fields.event_id), /^(?:evt_1|sha256:[0-9a-f]{64})$/);
  });
}

Deno.test("handleWebhook() answers 400 to bytes that are not UTF-8 and stores them", async () => {
  const { status, calls, lines } = await handle(
    signed(new Uint8Array([0x7b, 0xff, 0x7d])),
  );
  assertEquals([status, calls], [400, ["record_failed_event"]]);
  assertOneLine(lines, { code: "body_not_text", status });
});

/** An outcome of the database for the event, and what is answered. */
const FAILED_ROWS: [sqlstate: string, code: string, status: number][] = [
  ["BW001", "subscription_unknown", 500],
  ["BW002", "subscription_of_other_provider", 500],
  ["BW003", "deployment_fault", 500],
  ["23514", "apply_failed", 500],
  ["57014", "database_unavailable", 503],
];
for (const [error_code, code, status] of FAILED_ROWS) {
  Deno.test(`handleWebhook() answers ${status} if the event fails with ${error_code}, and stores it`, async () => {
    const answer = await handle(signed(DELETION), {
      answer: (name) =>
        name === "record_failed_event" ? agree(name) : Response.json([{
          place: 1,
          outcome: "failed",
          error_code,
          error: "Why.",
        }]),
    });
    assertEquals(answer.status, status);
    assertEquals(answer.calls, ["apply_billing_events", "record_failed_event"]);
    assertOneLine(answer.lines, { code, status });
    const { event_id, type } = answer.lines[0]!.fields;
    assertEquals([event_id, type], ["evt_1", "customer.subscription.deleted"]);
    assert(!answer.text.includes("Why"), answer.text);
  });
}

Deno.test("handleWebhook() never logs what the database says of the data it refuses", async () => {
  const says = `invalid input syntax: "${MARK}"`;
  const inRow = await handle(signed(DELETION), {
    answer: (name) =>
      name === "record_failed_event" ? agree(name) : Response.json([
        { place: 1, outcome: "failed", error_code: "22P02", error: says },
      ]),
  });
  assertOneLine(inRow.lines, { code: "apply_failed", status: 500 });

  const ofCall = await handle(signed(DELETION), {
    answer: (name) =>
      name === "record_failed_event"
        ? agree(name)
        : Response.json({ code: "22P02", message: says }, { status: 400 }),
  });
  assertOneLine(ofCall.lines, { code: "apply_failed", status: 500 });

  const ofFiling = await handle(signed(DELETION), {
    answer: () =>
      Response.json({ code: "22P02", message: says }, { status: 400 }),
  });
  assertOneLine(ofFiling.lines, { code: "failure_not_recorded", status: 503 });
});

Deno.test("handleWebhook() answers 503 and Retry-After while the database is down", async () => {
  for (const body of [DELETION, "{"]) {
    const { status, headers, lines, text } = await handle(signed(body), {
      answer: () => {
        throw new TypeError("connection refused");
      },
    });
    assertEquals(status, 503);
    assertMatch(headers.get("retry-after") ?? "none", /^\d+$/);
    assertMatch(text, /^[A-Z][\w -]+$/);
    assertOneLine(lines, { code: "failure_not_recorded", status });
    const { event_id, body_sha256 } = lines[0]!.fields;
    assertMatch(String(event_id), /^(?:evt_1|sha256:)/);
    assertMatch(String(body_sha256), /^[0-9a-f]{64}$/);
  }
});

Deno.test("handleWebhook() answers 503 if only storing fails", async () => {
  const { status, calls, lines } = await handle(signed("{"), {
    answer: () => Response.json({ code: "42501" }, { status: 403 }),
  });
  assertEquals([status, calls], [503, ["record_failed_event"]]);
  assertOneLine(lines, { code: "failure_not_recorded", status });
});

Deno.test("handleWebhook() answers 503 and stores the event if a call times out in the database", async () => {
  const { status, headers, lines } = await handle(signed(DELETION), {
    answer: (name) =>
      name === "record_failed_event"
        ? agree(name)
        : Response.json({ code: "55P03", message: "lock" }, { status: 500 }),
  });
  assertEquals(status, 503);
  assert(headers.has("retry-after"));
  assertOneLine(lines, { code: "record_locked", status });
});

Deno.test("handleWebhook() answers 500 to an unexpected error", async () => {
  const request = signed(DELETION);
  Object.defineProperty(request, "headers", {
    get() {
      throw new TypeError("broken");
    },
  });
  const { status, text, lines } = await handle(request);
  assertEquals([status, text], [500, "Event could not be applied"]);
  assertOneLine(lines, { code: "internal_error", status });
});

Deno.test("handleWebhook() measures with the clock that it is given", async () => {
  const { lines: [line] } = await handle(post(DELETION));
  assertEquals(line?.fields.duration_ms, 7);
});

Deno.test("handleWebhook() answers any authentic body, and stores or logs the event", async () => {
  const bodies = fc.oneof(
    fc.uint8Array({ maxLength: 60 }),
    fc.json().map((text) => new TextEncoder().encode(text)),
    fc.tuple(fc.jsonValue(), fc.jsonValue()).map(([id, data]) =>
      new TextEncoder().encode(
        JSON.stringify({ id, type: "customer.subscription.deleted", data }),
      )
    ),
  );
  await fc.assert(fc.asyncProperty(bodies, async (bytes) => {
    const body = new Uint8Array(bytes);
    fc.pre(body.byteLength <= 4_096);
    const { status, calls, lines } = await handle(signed(body));
    assert([200, 400, 422].includes(status), String(status));
    if (status !== 200) assertEquals(calls, ["record_failed_event"]);
    assertEquals(lines.length, 1);
  }));
});
