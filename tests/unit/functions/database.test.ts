import { assert, assertEquals, assertRejects } from "@std/assert";
import { createHash } from "node:crypto";
import {
  applyEvents,
  applyWithHandler,
  type BillingEvent,
} from "../../../supabase/functions/_shared/billing/database/apply_events.ts";
import { callFunction } from "../../../supabase/functions/_shared/billing/database/client.ts";
import { databaseError } from "../../../supabase/functions/_shared/billing/database/database_errors.ts";
import {
  describeFailedBody,
  recordFailure,
} from "../../../supabase/functions/_shared/billing/database/record_failure.ts";
import {
  SCHEMA_VERSION,
  watchVersion,
} from "../../../supabase/functions/_shared/billing/database/schema_version.ts";
import {
  DeliveryError,
  type ErrorCode,
} from "../../../supabase/functions/_shared/billing/errors.ts";
import { stripe } from "../../../supabase/functions/_shared/billing/events/stripe.ts";
import { codeOf, fakeDatabase, hanging, refusal } from "./fixtures.ts";

type Try = (signal: AbortSignal) => Response | Promise<Response>;

function call(tries: readonly Try[], timeLimitMs = 60_000) {
  const { database, calls } = fakeDatabase((_name, _body, { signal }) => {
    const answer = tries[calls.length - 1];
    assert(answer !== undefined, "One try too many");
    return answer(signal);
  });
  const args = { events: [] };
  const limit = { timeLimitMs };
  const result = callFunction(database, "billing_apply_events", args, limit);
  return { result, calls };
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

const PAGE = "<html>LEAKED</html>";
const GARBAGE = [
  text(200, PAGE),
  text(404, PAGE),
  text(502, PAGE),
  text(200, ""),
  text(404, ""),
  text(408, ""),
  text(500, ""),
  text(503, ""),
  text(204, null),
  text(307, ""),
  text(200, '[{"place":1,'),
  json(200, null),
  json(500, null),
  json(500, []),
  json(500, "boom"),
  // PostgREST, of a connection that died in its pool (PostgREST/postgrest#4681).
  json(400, { ...error("", ""), details: null, hint: null }),
];

const FAILURES: [code: ErrorCode, says: string, ...calls: Try[][]][] = [
  ["database_unavailable", "TypeError: connection reset", [broken, broken]],
  // The time limit is for both tries together.
  ["database_unavailable", SLOW, [hanging], [broken, hanging], [trickling]],
  ["deployment_fault", "42501: no", [broken, json(403, error("42501", "no"))]],
  // Whatever something in between makes of the status.
  ["database_unavailable", "57014: x", [json(404, error("57014", "x"))]],
  ["database_unavailable", "", ...GARBAGE.map((answer) => [answer])],
];
const HEADERS = ["content-profile", "apikey", "authorization"];
const KEYS = { sb_secret_unit: null, legacy: "Bearer legacy" };
Deno.test(
  "callFunction() repeats a broken call, and takes no garbage for an answer",
  {
    // No timer is left behind.
    sanitizeOps: true,
  },
  async () => {
    for (const first of [[], [broken], [breaksOff]]) {
      for (const value of [[{ a: 1 }], false, 0, ""]) {
        const { result, calls } = call([...first, json(200, value)]);
        assertEquals<unknown>(await result, value);
        assertEquals(calls.length, first.length + 1);
      }
    }

    for (const [expected, says, ...all] of FAILURES) {
      for (const tries of all) {
        const { result, calls } = call(tries, says === SLOW ? 20 : undefined);
        const { code, message } = await assertRejects(
          () => result,
          DeliveryError,
        );
        assert(message.startsWith(`Database call failed: ${says}`), message);
        assert(!message.includes("LEAKED"), message);
        assertEquals([code, calls.length], [expected, tries.length], says);
      }
    }

    for (const [key, token] of Object.entries(KEYS)) {
      const { database } = fakeDatabase((_name, _body, { url, headers }) => {
        assertEquals(url, "http://database.test/rest/v1/rpc/billing_prune");
        const values = HEADERS.map((name) => headers.get(name));
        assertEquals(values, ["public", key, token]);
        return Response.json([]);
      }, key);
      assertEquals((await database.rpc("billing_prune" as never)).error, null);
    }
  },
);

Deno.test("watchVersion() logs once that the database is newer, or older", async () => {
  let headers: HeadersInit = {};
  const levels: string[] = [];
  const watched = watchVersion({
    fetch: () => Promise.resolve(new Response("", { headers })),
    log: (level) => levels.push(level),
  });

  for (const ahead of [0, 1, 1, 0, -1]) {
    headers = { "billing-schema-version": `${SCHEMA_VERSION + ahead}` };
    await watched("");
    headers = {};
    await watched("");
  }
  assertEquals(levels, ["warn", "error"]);
});

Deno.test("each migration has another version", () => {
  const migrations = [...Deno.readDirSync("supabase/migrations")];
  assertEquals(SCHEMA_VERSION, migrations.length);
});

const CODES: Partial<Record<ErrorCode, string>> = {
  database_unavailable:
    // Disk full on Supabase (25006), times in the platform's token (PGRST303).
    "08000 08006 08P01 25006 26000 40001 40P01 42P05 53000 53300 57014 57P01 58030 PGRST000 PGRST003 PGRST303",
  deployment_fault:
    "42501 42883 42P01 42703 PGRST106 PGRST125 PGRST200 PGRST202 PGRST209 PGRST300 BW003",
  key_refused: "PGRST301 PGRST302",
  subscription_unknown: "BW001",
  subscription_of_other_provider: "BW002",
  repair_pending: "BW004",
  account_unknown: "BW005",
  event_invalid: "BW009",
  creation_pending: "BW006",
  handler_missing: "BW007",
  record_locked: "55P03",
  apply_failed:
    "22P05 22003 23505 42601 54000 P0001 XX000 BW000 BW0011 xBW001 PGRST004 PGRST100 PGRST116 PGRST127 PGRST210 PGRST304 PGRSTX00 x42501 425010 5701 570145 250060 constructor __proto__",
};
Deno.test("databaseError() knows codes, and keeps data out of the log", () => {
  const says = 'invalid input syntax: "LEAKED"';
  for (const [expected, codes = ""] of Object.entries(CODES)) {
    for (const code of codes.split(" ")) {
      const error = databaseError(code, says);
      assertEquals([error.code, error.message], [expected, says], code);
      const logged = expected === "apply_failed"
        ? `The database refused the event with ${code}: see its row in failed_events`
        : says;
      assertEquals(error.logMessage, logged);
    }
  }

  const raised = "billing.on_x raised P0042: LEAKED: 900";
  const { code, message, logMessage } = databaseError("BW008", raised);
  assertEquals([code, message, logMessage], [
    "apply_failed",
    raised,
    "billing.on_x raised P0042: see its row in failed_events",
  ]);

  for (const code of [undefined, ""]) {
    assertEquals(databaseError(code, says).code, "database_unavailable");
    // The gateway refuses a revoked key.
    const refused = [400, 401, 403].filter((status) =>
      databaseError(code, says, { status }).code === "key_refused"
    );
    assertEquals(refused, [401, 403]);
  }
});

const bytes = (text: string) => new TextEncoder().encode(text);
const STRIPE = { format: stripe, derivedId: undefined };

const BODIES: Record<string, (string | Uint8Array<ArrayBuffer>)[]> = {
  evt_1: [
    '{ "id":"evt_1", "type":"invoice.paid", "n":1e400 }',
    '{"id":"evt_1","type":"a\\n","a":"\\u0000\\ud800"}',
  ],
  "sha256:": [
    "",
    '{"id":"evt_1"',
    "null",
    '{"id":" "}',
    "Grüße \u{1f600}",
    // What Postgres cannot hold as text.
    Uint8Array.of(0xff, 0, 1),
    bytes('{"id":"evt_1","a":"x\0"}'),
  ],
};
Deno.test("describeFailedBody() files every byte, under an id or hash", async () => {
  for (const [id, bodies] of Object.entries(BODIES)) {
    for (const body of bodies) {
      const isText = typeof body === "string";
      const sent = isText ? bytes(body) : body;
      const { failed, bodyHash } = await describeFailedBody(sent, STRIPE);
      const { event_id, body_encoding } = failed;

      const hash = createHash("sha256").update(sent).digest("hex");
      assertEquals({ event_id, body_encoding, body: failed.body, bodyHash }, {
        event_id: id === "evt_1" ? id : id + hash,
        body_encoding: isText ? "text" : "base64",
        body: isText ? body : body.toBase64(),
        bodyHash: hash,
      });
    }
  }
});

const FILED = '{"id":"evt_1","type":"invoice.payment_failed"}';
async function file(answer: Response) {
  const { database } = fakeDatabase((_name, body) => {
    assertEquals<unknown>(body, {
      failure: {
        provider: "a",
        event_id: "evt_1",
        body: FILED,
        body_encoding: "text",
        error_code: "event_invalid",
        error: "Says why",
        type: "invoice.payment_failed",
        kind: "payment_failed",
      },
    });
    return answer;
  });
  const { failed } = await describeFailedBody(bytes(FILED), STRIPE);
  const error = new DeliveryError("event_invalid", "Says why", {
    logMessage: "Does not",
  });
  return await recordFailure(error, { provider: "a", failed, database });
}
Deno.test("recordFailure() files the error, and takes no garbage for an answer", async () => {
  for (const answer of ["stored", "retry", "applied", "erased"]) {
    assertEquals(await file(Response.json(answer)), answer);
  }
  for (const garbage of ['"other"', "true", "<html>"]) {
    assertEquals(
      await codeOf(file(new Response(garbage))),
      "database_unavailable",
      garbage,
    );
  }
  assertEquals(await codeOf(file(refusal("PGRST202"))), "deployment_fault");
});

const EVENT: BillingEvent = {
  type: "invoice.payment_failed",
  kind: "payment_failed",
  provider: "b",
  event_id: "evt_1",
  subscription_id: "sub_1",
  occurred_at: null,
  report: { customer_id: null },
};
const payment = { invoice_id: "in_1" };
const PAID = { ...EVENT, payment } as BillingEvent;
const failed = (error_code: string) => {
  return { outcome: "failed", error_code, error: "Says why." };
};

const OUTCOMES: [answer: object | undefined, result: string][] = [
  [{ outcome: "applied", retries: true }, "applied"],
  [failed("BW001"), "subscription_unknown: Says why."],
  [{ outcome: "stale", error_code: null, error: null }, "stale"],
  [failed("57014"), "database_unavailable: 57014: Says why."],
  [{ outcome: "duplicate" }, "duplicate"],
  [{ outcome: "failed" }, "database_unavailable: : undefined"],
  [
    undefined,
    "database_unavailable: Database call failed: the answer is not a list of outcomes",
  ],
];
Deno.test("applyEvents() returns each event's own outcome, by place", async () => {
  const rows = OUTCOMES.flatMap(([answer], i) =>
    answer ? { place: i + 1, ...answer } : []
  ).reverse();
  const events = [PAID, ...Array<BillingEvent>(6).fill(EVENT)];
  const { database, calls } = fakeDatabase(() => Response.json(rows));
  let wakes = 0;
  const results = await applyEvents(events, {
    database,
    onRetries: () => void wakes++,
  });

  const texts = results.map((result) =>
    typeof result === "string" ? result : `${result.code}: ${result.message}`
  );
  assertEquals(texts, OUTCOMES.map(([, result]) => result));
  assertEquals(wakes, 1);
  const sent = events.map((event, i) => ({ place: i + 1, ...event }));
  assertEquals(calls.pop(), ["apply_events", { events: sent }]);
});

const NO_OUTCOMES = [
  [null],
  [[]],
  ["applied"],
  "applied",
  { outcome: "applied" },
  null,
  [{ place: 1, outcome: "failed", error_code: 1 }],
  [{ outcome: "applied" }],
  [{ place: 1, outcome: "APPLIED" }],
  [{ place: "1", outcome: "applied" }],
];
const apply = (answer: Response) =>
  applyEvents([EVENT], fakeDatabase(() => answer));
async function applyHandled(answer: Response) {
  const outcome = await applyWithHandler(EVENT, fakeDatabase(() => answer));
  if (outcome instanceof DeliveryError) throw outcome;
  return outcome;
}
Deno.test("applyEvents() and applyWithHandler() take no garbage for an answer", async () => {
  for (const work of [apply, applyHandled]) {
    for (const answer of NO_OUTCOMES) {
      const code = await codeOf(work(Response.json(answer)));
      assertEquals(code, "database_unavailable", JSON.stringify(answer));
    }
    assertEquals(await codeOf(work(refusal("PGRST202"))), "deployment_fault");
  }

  const applied = [{ place: 1, outcome: "applied", retries: true }];
  assertEquals(await applyHandled(Response.json(applied)), "applied");
  // It was slow, and Postgres ended the call.
  assertEquals(await codeOf(applyHandled(refusal("57014"))), "apply_failed");
  const lost = await assertRejects(() => applyHandled(refusal("PGRST001")));
  assert(/functions run deallocate/.test(`${lost}`), `${lost}`);
  for (const code of ["57014", "PGRST001"]) {
    assertEquals(await codeOf(apply(refusal(code))), "database_unavailable");
  }
});
