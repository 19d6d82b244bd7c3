import { assert, assertEquals, assertMatch } from "@std/assert";
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
      (events) => applyEvents(events, { database }),
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
  return name === "billing_record_failed_event"
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
    const { status, text, headers, calls, lines } = await handle(request);
    assertEquals([status, text], [200, "OK"]);
    assertEquals(headers.get("content-type"), "text/plain; charset=utf-8");
    assertEquals(calls, ["billing_apply_events"]);
    const provider = request.headers.has("provider-a-signature") ? "a" : "b";
    assertEquals(lines, [{
      level: "info",
      message: "events applied",
      fields: {
        provider,
        event_id: "evt_1",
        type: "customer.subscription.deleted",
        subscription_id: "sub_1",
        outcomes: { applied: 1 },
        duration_ms: 14,
      },
    }]);
    assertDiscreet(lines);
  }
});

Deno.test("handleWebhook() refuses a wrong signature with one line, and stores nothing", async () => {
  const { status, text, calls, lines } = await handle(
    post(DELETION, { "provider-b-signature": hmacHex("x", DELETION) }),
  );
  assertEquals([status, text, calls], [401, "Invalid signature", []]);
  assertOneLine(lines, { code: "signature_mismatch", status });
});

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

Deno.test("handleWebhook() never logs what the database says of the data it refuses", async () => {
  const says = `invalid input syntax: "${MARK}"`;
  const inRow = await handle(signed(DELETION), {
    answer: (name) =>
      name === "billing_record_failed_event" ? agree(name) : Response.json([
        { place: 1, outcome: "failed", error_code: "22P02", error: says },
      ]),
  });
  assertOneLine(inRow.lines, { code: "apply_failed", status: 500 });

  const ofCall = await handle(signed(DELETION), {
    answer: (name) =>
      name === "billing_record_failed_event"
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
