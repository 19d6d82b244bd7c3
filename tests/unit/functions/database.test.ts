import { assert, assertEquals, assertRejects } from "@std/assert";
import {
  callDatabase,
  createClient,
} from "../../../supabase/functions/_shared/billing/database.ts";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";

const CONFIG = {
  supabaseUrl: "http://database.test",
  secretKey: "sb_secret_unit",
};

type Answer = (signal: AbortSignal) => Response | Promise<Response>;

/** One call through the real client, answered as listed, try by try. */
async function call(
  answers: readonly Answer[],
  { timeLimitMs = 5_000 } = {},
): Promise<{ result: Promise<unknown>; requests: Request[] }> {
  const requests: Request[] = [];
  const fetch: typeof globalThis.fetch = async (input, init) => {
    const answer = answers[requests.length];
    requests.push(new Request(input, { ...init, signal: null }));
    assert(answer !== undefined, "One try too many");
    assert(init?.signal, "The call has no time limit");
    return await answer(init.signal);
  };
  const database = createClient(CONFIG, { fetch });
  const result = callDatabase(
    (signal) =>
      database.rpc("billing_apply_events", { events: [{ a: 1 }] })
        .abortSignal(signal),
    { timeLimitMs },
  );
  await result.catch(() => {});
  return { result, requests };
}

/** Passes when the call fails so, after that many tries. */
async function assertFails(
  answers: readonly Answer[],
  expected: { code: DeliveryError["code"]; says?: string; tries?: number },
  options: { timeLimitMs?: number } = {},
): Promise<void> {
  const { result, requests } = await call(answers, options);
  const error = await assertRejects(
    () => result,
    DeliveryError,
    expected.says ?? "Database call failed: ",
  );
  assertEquals(error.code, expected.code, error.message);
  assertEquals(requests.length, expected.tries ?? 1, error.message);
}

function broken(): never {
  throw new TypeError("error sending request: connection reset by peer");
}

function json(status: number, body: unknown): Answer {
  return () => Response.json(body, { status });
}

function text(status: number, body: string | null): Answer {
  return () => new Response(body, { status });
}

/** An answer that never comes, as of a server that hangs. */
function hanging(signal: AbortSignal): Promise<Response> {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason));
  });
}

Deno.test("createClient() calls the project with its secret key", async () => {
  const { requests: [request] } = await call([json(200, [])]);
  assertEquals(
    request?.url,
    "http://database.test/rest/v1/rpc/billing_apply_events",
  );
  assertEquals(request?.method, "POST");
  // A project may list another schema first.
  assertEquals(request?.headers.get("content-profile"), "public");
  assertEquals(request?.headers.get("apikey"), "sb_secret_unit");
  assertEquals(await request?.json(), { events: [{ a: 1 }] });
});

Deno.test("callDatabase() returns what the call answers", async () => {
  const rows = [{ place: 1, outcome: "applied" }];
  const { result, requests } = await call([json(200, rows)]);
  assertEquals(await result, rows);
  assertEquals(requests.length, 1);
});

Deno.test("callDatabase() returns false and 0, which are answers too", async () => {
  for (const value of [false, 0, ""]) {
    const { result } = await call([json(200, value)]);
    assertEquals(await result, value);
  }
});

Deno.test("callDatabase() tries a broken connection once more, with the same call", async () => {
  const { result, requests } = await call([broken, json(200, [])]);
  assertEquals(await result, []);
  assertEquals(requests.length, 2);
  assertEquals(await requests[0]?.text(), await requests[1]?.text());
});

Deno.test("callDatabase() tries once more if the answer breaks off", async () => {
  const breaksOff: Answer = () =>
    new Response(
      new ReadableStream({
        start(controller) {
          controller.enqueue(new TextEncoder().encode("["));
        },
        pull(controller) {
          controller.error(new TypeError("connection closed"));
        },
      }, { highWaterMark: 0 }),
    );
  const { result, requests } = await call([breaksOff, json(200, [])]);
  assertEquals(await result, []);
  assertEquals(requests.length, 2);
});

Deno.test("callDatabase() gives up after the second broken connection", async () => {
  await assertFails([broken, broken], {
    code: "database_unavailable",
    says: "connection reset by peer",
    tries: 2,
  });
});

Deno.test("callDatabase() judges the second answer as the first", async () => {
  await assertFails([broken, json(400, { code: "42501", message: "denied" })], {
    code: "deployment_fault",
    says: "42501: denied",
    tries: 2,
  });
});

Deno.test({
  name: "callDatabase() leaves no timer behind",
  sanitizeOps: true,
  sanitizeResources: true,
  fn: async () => {
    await call([json(200, [])]);
    await call([broken, broken]);
    const thrown = callDatabase(() => Promise.reject(new Error("a mistake")), {
      timeLimitMs: 5_000,
    });
    await assertRejects(() => thrown, Error, "a mistake");
  },
});

Deno.test("callDatabase() does not try again after its time", async () => {
  await assertFails([hanging], {
    code: "database_unavailable",
    says: "no answer within 20 ms",
  }, { timeLimitMs: 20 });
});

Deno.test("callDatabase() has one time limit for both tries", async () => {
  await assertFails([broken, hanging], {
    code: "database_unavailable",
    says: "no answer within 20 ms",
    tries: 2,
  }, { timeLimitMs: 20 });
});

Deno.test("callDatabase() limits the time of an answer that trickles", async () => {
  const trickling: Answer = (signal) =>
    new Response(
      new ReadableStream({
        start(controller) {
          controller.enqueue(new TextEncoder().encode("["));
          signal.addEventListener(
            "abort",
            () => controller.error(signal.reason),
          );
        },
      }),
    );
  await assertFails([trickling], {
    code: "database_unavailable",
    says: "no answer within 20 ms",
  }, { timeLimitMs: 20 });
});

Deno.test("callDatabase() judges an error by its code, whatever its status", async () => {
  for (
    const [status, code, expected] of [
      [503, "PGRST000", "database_unavailable"],
      [403, "42501", "deployment_fault"],
      // As something in between may say.
      [404, "57014", "database_unavailable"],
    ] as const
  ) {
    const body = { code, details: null, hint: null, message: "says" };
    await assertFails([json(status, body)], {
      code: expected,
      says: `Database call failed: ${code}: says`,
    });
  }
});

const GARBAGE: Record<string, Answer> = {
  "HTML with 200": text(200, "<html>maintenance</html>"),
  "HTML with 502": text(502, "<html>Bad Gateway</html>"),
  "HTML with 404": text(404, "<html>Not Found</html>"),
  "nothing with 200": text(200, ""),
  "nothing with 204": text(204, null),
  "nothing with 404": text(404, ""),
  "nothing with 500": text(500, ""),
  "null with 200": json(200, null),
  "null with 500": json(500, null),
  "half of a JSON text with 200": text(200, '[{"place":1,'),
  "the gateway's own error": json(401, { message: "Invalid API key" }),
  "an array with 500": json(500, []),
  "a string with 500": json(500, "boom"),
  "a redirect": text(307, ""),
};
for (const [name, answer] of Object.entries(GARBAGE)) {
  Deno.test(`callDatabase() takes ${name} for an unavailable database`, async () => {
    await assertFails([answer], { code: "database_unavailable" });
  });
}

Deno.test("callDatabase() repeats nothing of an answer that is not the API's", async () => {
  for (const status of [200, 404, 502]) {
    const { result } = await call([text(status, "<p>evt_secret</p>")]);
    const { message } = await assertRejects(() => result, DeliveryError);
    assert(!message.includes("evt_secret"), message);
  }
});

Deno.test("callDatabase() tries no answer again, whatever it says", async () => {
  for (const status of [400, 408, 429, 500, 502, 503, 504, 520]) {
    const { requests } = await call([text(status, "")]);
    assertEquals(requests.length, 1, String(status));
  }
});
