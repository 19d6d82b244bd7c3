import { assert, assertEquals, assertRejects } from "@std/assert";
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import {
  applyEvents,
  type BillingEvent,
} from "../../../supabase/functions/_shared/billing/apply_events.ts";
import {
  callDatabase,
  createClient,
} from "../../../supabase/functions/_shared/billing/database.ts";
import {
  DeliveryError,
  type ErrorCode,
} from "../../../supabase/functions/_shared/billing/errors.ts";
import {
  describeFailedBody,
  recordFailure,
} from "../../../supabase/functions/_shared/billing/record_failure.ts";
import { codeOf, fakeDatabase, hanging, refusal } from "./fixtures.ts";

const HOST = "http://database.test";

type Try = (signal: AbortSignal) => Response | Promise<Response>;

/** One call through the real client, answered as listed, try by try. */
function call(
  tries: readonly Try[],
  { secretKey = "sb_secret_unit", timeLimitMs = 60_000 } = {},
) {
  const requests: Request[] = [];
  const database = createClient({ supabaseUrl: HOST, secretKey }, {
    fetch: async (input, init) => {
      const answer = tries[requests.length];
      requests.push(new Request(input, { ...init, signal: null }));
      assert(answer !== undefined, "One try too many");
      return await answer(init?.signal as AbortSignal);
    },
  });
  const result = callDatabase(
    (signal) =>
      database.rpc("billing_apply_events", { events: [{ a: 1 }] })
        .abortSignal(signal),
    { timeLimitMs },
  );
  return { result, requests };
}

const broken: Try = () => {
  throw new TypeError("connection reset by peer");
};
const error = (code: string, message: string) => ({ code, message });
const json = (status: number, body: unknown): Try => () =>
  Response.json(body, { status });
const text = (status: number, body: string | null): Try => () =>
  new Response(body, { status });

/** An answer that begins, and whose end never comes or breaks off. */
const begun = (end: Promise<void>) =>
  new Response(
    new ReadableStream({
      start: (controller) => controller.enqueue(new TextEncoder().encode("[")),
      pull: () => end,
    }, { highWaterMark: 0 }),
  );
const trickling: Try = (signal) => begun(hanging(signal));
const breaksOff: Try = () => begun(Promise.reject(new TypeError("closed")));

const SLOW = "no answer within 20 ms";

const GARBAGE = [
  ...[200, 404, 502].map((status) => text(status, "<html>LEAKED</html>")),
  ...[200, 404, 408, 429, 500, 503, 520].map((status) => text(status, "")),
  ...[text(204, null), text(307, ""), text(200, '[{"place":1,')],
  ...[json(200, null), json(500, null), json(500, []), json(500, "boom")],
  json(401, { message: "Invalid API key" }),
  // PostgREST, of a connection that died in its pool (PostgREST/postgrest#4681).
  json(400, { ...error("", ""), details: null, hint: null }),
];

/** What the message says of a call that fails, and what its tries answer. */
const FAILURES: [code: ErrorCode, says: string, ...calls: Try[][]][] = [
  ["database_unavailable", "TypeError: connection reset", [broken, broken]],
  // The time limit is for both tries together.
  ["database_unavailable", SLOW, [hanging], [broken, hanging], [trickling]],
  ["deployment_fault", "42501: no", [broken, json(403, error("42501", "no"))]],
  // Whatever something in between makes of the status.
  ["database_unavailable", "57014: x", [json(404, error("57014", "x"))]],
  ["database_unavailable", "", ...GARBAGE.map((answer) => [answer])],
];
Deno.test({
  name:
    "callDatabase() tries a broken connection once more, and takes no garbage for an answer",
  // No timer is left behind.
  sanitizeOps: true,
  fn: async () => {
    for (const first of [[], [broken], [breaksOff]]) {
      for (const value of [[{ a: 1 }], false, 0, ""]) {
        const { result, requests } = call([...first, json(200, value)]);
        assertEquals<unknown>(await result, value);
        assertEquals(requests.length, first.length + 1);
      }
    }
    for (const [expected, says, ...calls] of FAILURES) {
      for (const tries of calls) {
        const limit = says === SLOW ? { timeLimitMs: 20 } : {};
        const { result, requests } = call(tries, limit);
        const { code, message } = await assertRejects(
          () => result,
          DeliveryError,
        );
        assert(message.startsWith(`Database call failed: ${says}`), message);
        assert(!message.includes("LEAKED"), message);
        assertEquals([code, requests.length], [expected, tries.length], says);
      }
    }
    for (const secretKey of ["sb_secret_unit", "legacy"]) {
      const { result, requests } = call([json(200, [])], { secretKey });
      await result;
      const [{ url, headers }] = requests as [Request];
      assertEquals(url, `${HOST}/rest/v1/rpc/billing_apply_events`);
      const token = secretKey === "legacy" ? "Bearer legacy" : null;
      const names = ["content-profile", "apikey", "authorization"];
      const values = names.map((name) => headers.get(name));
      assertEquals(values, ["public", secretKey, token]);
    }
  },
});

const EVENT: BillingEvent = {
  provider: "b",
  event_id: "evt_1",
  type: "invoice.payment_failed",
  kind: "payment_failed",
  occurred_at: null,
  subscription_id: "sub_1",
  report: { customer_id: null },
};

Deno.test("applyEvents() returns each event's own outcome, by place and not by order", async () => {
  const rows = [
    { place: 3, outcome: "stale", error_code: null, error: null },
    { place: 1, outcome: "applied" },
    { place: 4, outcome: "failed", error_code: "57014", error: "Says why." },
    { place: 2, outcome: "failed", error_code: "BW001", error: "Says why." },
    { place: 5, outcome: "duplicate" },
    { place: 6, outcome: "failed" },
  ];
  const payment = { invoice_id: "in_1" };
  const first = { ...EVENT, payment } as BillingEvent;
  const events = [first, ...Array<BillingEvent>(6).fill(EVENT)];
  const { database, calls } = fakeDatabase(() => Response.json(rows));
  for (const oncePerInvoice of [true, false]) {
    const results = await applyEvents(events, { database, oncePerInvoice });
    assertEquals(
      results.map((one) =>
        typeof one === "string" ? one : `${one.code}: ${one.message}`
      ),
      [
        "applied",
        "subscription_unknown: Says why.",
        "stale",
        "database_unavailable: 57014: Says why.",
        "duplicate",
        "database_unavailable: : undefined",
        "database_unavailable: Database call failed: the answer is not a list of outcomes",
      ],
    );
    const [name, body] = calls.pop()!;
    const once = oncePerInvoice ? { once_per_invoice: true } : {};
    assertEquals<unknown>([name, body.events], ["apply_events", [
      { place: 1, ...EVENT, payment: { ...payment, ...once } },
      ...[2, 3, 4, 5, 6, 7].map((place) => ({ place, ...EVENT })),
    ]]);
  }
});

const NO_OUTCOMES = [
  ...[[null], [[]], ["applied"], "applied", {}, { outcome: "applied" }, null],
  ...[[{}], [{ outcome: "applied" }], [{ place: 1, outcome: "APPLIED" }]],
  ...[[{ place: "1", outcome: "applied" }], true, 1],
].map((answer) => Response.json(answer));
const NO_ANSWERS = ['"other"', "true", "<html>"].map((body) =>
  new Response(body)
);
Deno.test("applyEvents() and recordFailure() never take garbage for an answer, and throw the call's fault", async () => {
  const failed = await describeFailedBody(bytes("{}"));
  const error = new DeliveryError("event_invalid", "");
  type Work = (answer: Response) => Promise<unknown>;
  const cases: [work: Work, garbage: Response[]][] = [
    [(answer) => applyEvents([EVENT], fakeDatabase(() => answer)), NO_OUTCOMES],
    [(answer) => {
      const { database } = fakeDatabase(() => answer);
      return recordFailure(error, { provider: "a", failed, database });
    }, NO_ANSWERS],
  ];
  for (const [work, garbage] of cases) {
    for (const answer of garbage) {
      assertEquals(await codeOf(work(answer)), "database_unavailable");
    }
    assertEquals(await codeOf(work(refusal("PGRST202"))), "deployment_fault");
  }
});

type Body = string | number[] | Uint8Array;

function bytes(body: Body): Uint8Array<ArrayBuffer> {
  return typeof body === "string"
    ? new TextEncoder().encode(body)
    : new Uint8Array(body);
}

/** Bodies with a usable id, and without one. */
const BODIES: Record<string, Body[]> = {
  evt_1: [
    '{ "id":"evt_1", "type":"invoice.paid", "n":1e400 }',
    '{"id":"evt_1","type":"a\\n","a":"\\u0000\\ud800"}',
  ],
  "sha256:": [
    ...["", '{"id":"evt_1"', '"evt_1"', "null", "{}", '{"id":1}', '{"id":" "}'],
    ...['{"__proto__":{"id":"evt_1"}}', "[".repeat(100_000), "Grüße \u{1f600}"],
    // What Postgres cannot hold as text.
    ...[[0xff], [0x00], [0xed, 0xa0, 0x80], [0x7b, 0xff, 0x7d]],
    bytes('{"id":"evt_1","a":"x\0"}'),
    // Around the chunks of the conversion.
    ...[32_767, 32_768, 32_769, 100_001]
      .map((length) => new Uint8Array(length).fill(0xfe).fill(1, 32_768)),
  ],
};
Deno.test("describeFailedBody() files a body under its id or hash, and loses no byte", async () => {
  for (const [id, bodies] of Object.entries(BODIES)) {
    for (const body of bodies) {
      const sent = bytes(body);
      const bodyHash = createHash("sha256").update(sent).digest("hex");
      const eventId = id === "evt_1" ? id : id + bodyHash;
      const encoding = typeof body === "string" ? "text" : "base64";
      const { event: _, body: text, ...failed } = await describeFailedBody(
        sent,
      );
      assertEquals(failed, { eventId, bodyHash, encoding }, text.slice(0, 80));
      const kept = Buffer.from(text, encoding === "text" ? "utf-8" : encoding);
      assertEquals(Buffer.compare(kept, sent), 0);
    }
  }
  const marked = await describeFailedBody(bytes("\ufeff{}"));
  assertEquals([marked.body, marked.encoding], ["{}", "text"]);
});

Deno.test("recordFailure() files the body with the reason, unless it was applied before", async () => {
  const body =
    '{"id":"evt_1","type":"invoice.payment_failed","data":{"object":{"customer":"cus_1"}}}';
  const failed = await describeFailedBody(bytes(body));
  const error = new DeliveryError("event_invalid", "id: must not be blank");
  for (const answer of ["stored", "retry", "applied"] as const) {
    const { database, calls } = fakeDatabase(() => Response.json(answer));
    const work = recordFailure(error, { provider: "a", failed, database });
    assertEquals(await work, answer);
    assertEquals<unknown>(calls, [["record_failed_event", {
      ...{ p_provider: "a", p_event_id: "evt_1", p_customer_id: "cus_1" },
      ...{ p_type: "invoice.payment_failed", p_kind: "payment_failed" },
      ...{ p_body: body, p_body_encoding: "text" },
      ...{ p_error_code: "event_invalid", p_error: "id: must not be blank" },
    }]]);
  }
});
