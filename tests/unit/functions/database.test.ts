import { assert, assertEquals, assertRejects } from "@std/assert";
import {
  applyEvents,
  type BillingEvent,
} from "../../../supabase/functions/_shared/billing/apply_events.ts";
import {
  callDatabase,
  createClient,
} from "../../../supabase/functions/_shared/billing/database.ts";
import {
  databaseError,
  databaseErrorCode,
} from "../../../supabase/functions/_shared/billing/database_errors.ts";
import {
  DeliveryError,
  type ErrorCode,
} from "../../../supabase/functions/_shared/billing/errors.ts";
import { codeOf, fakeDatabase, hanging, refusal } from "./fixtures.ts";

type Try = (signal: AbortSignal) => Response | Promise<Response>;

/** One call through the real client, answered as listed, try by try. */
function call(
  tries: readonly Try[],
  { secretKey = "sb_secret_unit", timeLimitMs = 60_000 } = {},
) {
  const requests: Request[] = [];
  const supabaseUrl = "http://database.test";
  const database = createClient({ supabaseUrl, secretKey }, {
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

Deno.test("createClient() names key and schema in every call", async () => {
  for (const key of ["sb_secret_unit", "legacy"]) {
    const { result, requests } = call([json(200, [])], { secretKey: key });
    await result;
    const [{ url, headers }] = requests as [Request];
    assertEquals(url, "http://database.test/rest/v1/rpc/billing_apply_events");
    const names = ["content-profile", "apikey", "authorization"];
    const token = key === "legacy" ? "Bearer legacy" : null;
    const values = names.map((name) => headers.get(name));
    assertEquals(values, ["public", key, token]);
  }
});

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
        const error = await assertRejects(() => result, DeliveryError);
        const { code, message } = error;
        assert(message.startsWith(`Database call failed: ${says}`), message);
        assert(!message.includes("LEAKED"), message);
        assertEquals([code, requests.length], [expected, tries.length], says);
      }
    }
  },
});

const CODES: Partial<Record<ErrorCode, string>> = {
  database_unavailable:
    // Disk full on Supabase (25006), times in the platform's token (PGRST303).
    "08000 08006 08P01 25006 40001 40P01 53000 53300 57014 57P01 58030 PGRST000 PGRST003 PGRST303",
  deployment_fault:
    "42501 42883 42P01 42703 PGRST106 PGRST125 PGRST200 PGRST202 PGRST209 PGRST300 PGRST301 PGRST302 BW003",
  subscription_unknown: "BW001",
  subscription_of_other_provider: "BW002",
  repair_pending: "BW004",
  event_invalid: "BW005",
  creation_pending: "BW006",
  record_locked: "55P03",
  apply_failed:
    "22P05 22003 23505 42601 54000 P0001 XX000 BW000 BW0011 xBW001 PGRST004 PGRST100 PGRST116 PGRST127 PGRST210 PGRST304 PGRSTX00 x42501 425010 5701 570145 250060 constructor __proto__",
};
Deno.test("databaseError() knows what a code means, and keeps refused data out of the log", () => {
  const says = 'invalid input syntax: "LEAKED"';
  for (const [expected, codes = ""] of Object.entries(CODES)) {
    for (const code of codes.split(" ")) {
      const error = databaseError(code, says);
      assertEquals<string>(error.code, expected, code);
      assertEquals(error.message, says);
      const isRefusal = expected === "apply_failed";
      assertEquals(error.logMessage === says, !isRefusal, code);
      assertEquals(error.logMessage.includes("LEAKED"), !isRefusal, code);
      assertEquals(error.logMessage.includes(code), isRefusal, code);
    }
  }
  for (const code of [undefined, ""]) {
    assertEquals(databaseErrorCode(code), "database_unavailable");
  }
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

Deno.test("applyEvents() never takes garbage for success, and throws the call's fault", async () => {
  const apply = (answer: Response) =>
    applyEvents([EVENT], fakeDatabase(() => answer));
  const answers = [
    ...[[null], [[]], ["applied"], "applied", {}, { outcome: "applied" }, null],
    ...[[{}], [{ outcome: "applied" }], [{ place: 1, outcome: "APPLIED" }]],
    ...[[{ place: "1", outcome: "applied" }], true, 1],
  ];
  for (const answer of answers) {
    const code = await codeOf(apply(Response.json(answer)));
    assertEquals(code, "database_unavailable", JSON.stringify(answer));
  }
  assertEquals(await codeOf(apply(refusal("PGRST202"))), "deployment_fault");
  const [missing] = await apply(Response.json([]));
  assert(missing instanceof DeliveryError);
});
