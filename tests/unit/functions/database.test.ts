import { assert, assertEquals, assertRejects } from "@std/assert";
import { createHash } from "node:crypto";
import {
  applyEvents,
  applyHandledEvent,
  type BillingEvent,
} from "../../../supabase/functions/_shared/billing/database/apply_events.ts";
import {
  callFunction,
} from "../../../supabase/functions/_shared/billing/database/client.ts";
import {
  DeliveryError,
  type ErrorCode,
} from "../../../supabase/functions/_shared/billing/errors.ts";
import { stripe } from "../../../supabase/functions/_shared/billing/events/stripe.ts";
import {
  describeFailedBody,
  recordFailure,
} from "../../../supabase/functions/_shared/billing/database/record_failure.ts";
import type { Environment } from "../../../supabase/functions/_shared/billing/settings/deployment.ts";
import { checkAcknowledged } from "../../../supabase/functions/billing-webhook/check_acknowledged.ts";
import { accountEmail } from "../../../supabase/functions/billing-worker/channels/email_channel.ts";
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

const bytes = (text: string) => new TextEncoder().encode(text);
const STRIPE = { format: stripe, eventId: undefined };

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
      start: (controller) => controller.enqueue(bytes("[")),
      pull: () => end,
    }, { highWaterMark: 0 }),
  );
const trickling: Try = (signal) => begun(hanging(signal));
const breaksOff: Try = () => begun(Promise.reject(new TypeError("closed")));

const SLOW = "no answer within 20 ms";

const GARBAGE = [
  ...[200, 404, 502].map((status) => text(status, "<html>LEAKED</html>")),
  ...[200, 404, 408, 500, 503].map((status) => text(status, "")),
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
Deno.test({
  name:
    "callFunction() tries a broken connection once more, and takes no garbage for an answer",
  // No timer is left behind.
  sanitizeOps: true,
  fn: async () => {
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
});

const ids = { provider: "b", event_id: "evt_1", subscription_id: "sub_1" };
const EVENT: BillingEvent = {
  type: "invoice.payment_failed",
  kind: "payment_failed",
  ...ids,
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
Deno.test("applyEvents() returns each event's own outcome, by place and not by order", async () => {
  const rows = OUTCOMES.map(([answer], i) =>
    answer && { place: i + 1, ...answer }
  )
    .filter((row) => row !== undefined).reverse();
  const events = [PAID, ...Array<BillingEvent>(6).fill(EVENT)];
  const { database, calls } = fakeDatabase(() => Response.json(rows));
  for (const oncePerInvoice of [true, undefined]) {
    let wakes = 0;
    const options = {
      database,
      onRetries: () => void wakes++,
      ...(oncePerInvoice && { oncePerInvoice }),
    };
    const results = (await applyEvents(events, options)).map((one) =>
      typeof one === "string" ? one : `${one.code}: ${one.message}`
    );
    assertEquals(results, OUTCOMES.map(([, result]) => result));
    assertEquals(wakes, 1);
    const once = oncePerInvoice ? { once_per_invoice: true } : {};
    assertEquals<unknown>(calls.pop(), ["apply_events", {
      events: [
        { place: 1, ...EVENT, payment: { ...payment, ...once } },
        ...[2, 3, 4, 5, 6, 7].map((place) => ({ place, ...EVENT })),
      ],
    }]);
  }
});

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
Deno.test("describeFailedBody() files a body under its id or hash, and loses no byte", async () => {
  for (const [id, bodies] of Object.entries(BODIES)) {
    for (const body of bodies) {
      const isText = typeof body === "string";
      const sent = isText ? bytes(body) : body;
      const bodyHash = createHash("sha256").update(sent).digest("hex");
      const eventId = id === "evt_1" ? id : id + bodyHash;
      const { event: _, ...failed } = await describeFailedBody(sent, STRIPE);
      assertEquals(failed, {
        eventId,
        bodyHash,
        encoding: isText ? "text" : "base64",
        body: isText ? body : body.toBase64(),
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
  const failed = await describeFailedBody(bytes(FILED), STRIPE);
  const logged = { logMessage: "Does not" };
  const error = new DeliveryError("event_invalid", "Says why", logged);
  return await recordFailure(error, { provider: "a", failed, database });
}
const applyHandled = (answer: Response) =>
  applyHandledEvent(EVENT, fakeDatabase(() => answer)).then((outcome) => {
    if (outcome instanceof DeliveryError) throw outcome;
    return outcome;
  });
const apply = (answer: Response) =>
  applyEvents([EVENT], fakeDatabase(() => answer));
const emailOf = (answer: Response) =>
  accountEmail(fakeDatabase(() => answer).database, "acc_1");
const NO_OUTCOMES = [
  [null],
  [[]],
  ["applied"],
  "applied",
  { outcome: "applied" },
  null,
  [{}],
  [{ outcome: "applied" }],
  [{ place: 1, outcome: "APPLIED" }],
  [{ place: "1", outcome: "applied" }],
].map((answer) => JSON.stringify(answer));
const CALLS: [(answer: Response) => Promise<unknown>, garbage: string[]][] = [
  [apply, NO_OUTCOMES],
  [applyHandled, NO_OUTCOMES],
  [file, ['"other"', "true", "<html>"]],
  [emailOf, []],
];
Deno.test("no call takes garbage for an answer, and each throws the call's fault", async () => {
  assertEquals(await emailOf(Response.json("a@example.com")), "a@example.com");
  for (const answer of ["stored", "retry", "applied", "erased"]) {
    assertEquals(await file(Response.json(answer)), answer);
  }
  const [[answer]] = OUTCOMES as [[object, string]];
  const rows = Response.json([{ place: 1, ...answer }]);
  assertEquals(await applyHandled(rows), "applied");
  // It was slow, and Postgres ended the call as a whole.
  assertEquals(await codeOf(applyHandled(refusal("57014"))), "apply_failed");
  assertEquals(await codeOf(apply(refusal("57014"))), "database_unavailable");
  const lost = await assertRejects(() => applyHandled(refusal("PGRST001")));
  assert(/functions run deallocate/.test(`${lost}`), `${lost}`);
  assertEquals(
    await codeOf(apply(refusal("PGRST001"))),
    "database_unavailable",
  );
  for (const [work, garbage] of CALLS) {
    for (const body of garbage) {
      const code = await codeOf(work(new Response(body)));
      assertEquals(code, "database_unavailable", body);
    }
    assertEquals(await codeOf(work(refusal("PGRST202"))), "deployment_fault");
  }
});

const RAN_AT = "2026-11-03T10:00:00+00:00";
const ranAt = (last_scheduled_run_at: string | null) => () =>
  Response.json([{ last_scheduled_run_at }]);
const ALERTS = { ALERT_URL: "https://hooks.test/" };
const LACKS: [answer: () => Response, env: Environment, says?: string][] = [
  [ranAt(RAN_AT), ALERTS],
  [ranAt(RAN_AT), {}, "no alert channel"],
  [ranAt("2026-11-03T09:59:59.9+00:00"), ALERTS, "the schedule has not woken"],
  [ranAt(null), ALERTS, "the schedule has not woken"],
  [() => refusal("PGRST205"), ALERTS, "cannot be checked: Database call"],
];
Deno.test("checkAcknowledged() logs that failures may not be retried or seen", async () => {
  const fiveMinutesLater = Date.parse(RAN_AT) + 300_000;
  for (const [answer, env, says] of LACKS) {
    const errors: unknown[] = [];
    await checkAcknowledged({
      env,
      database: fakeDatabase(answer).database,
      clock: () => fiveMinutesLater,
      log: (level, _, fields) => errors.push(level, fields?.["error"]),
    });
    assertEquals(errors.length, says ? 2 : 0);
    if (says) assert(`${errors[1]}`.startsWith(says), `${errors[1]}`);
  }
});
