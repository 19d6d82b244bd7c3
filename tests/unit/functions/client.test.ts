import { assert, assertEquals, assertRejects } from "@std/assert";
import { callFunction } from "../../../supabase/functions/_shared/billing/database/client.ts";
import {
  DeliveryError,
  type ErrorCode,
} from "../../../supabase/functions/_shared/billing/errors.ts";
import { fakeDatabase, hanging } from "./fixtures.ts";

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
