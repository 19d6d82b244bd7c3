import { assert, assertEquals, assertRejects } from "@std/assert";
import Stripe from "stripe";
import { callStripe } from "../../../scripts/stripe_sync/call_stripe.ts";

const DATE = Date.parse("2026-11-21T10:00:30Z") / 1000;

/** Calls a Stripe that gives these answers; returns the result and the waits. */
async function asked(
  answers: (() => Response | Promise<Response>)[],
) {
  let turn = 0;
  const stripe = new Stripe("sk_test_unit", {
    maxNetworkRetries: 0,
    httpClient: Stripe.createFetchHttpClient(() => {
      const answer = answers[turn++];
      assert(answer !== undefined, "Asked too often");
      return Promise.resolve(answer());
    }),
  });
  const waits: number[] = [];
  const result = callStripe(
    () => stripe.subscriptions.retrieve("sub_1"),
    (milliseconds) => Promise.resolve(void waits.push(milliseconds)),
  );
  await result.catch(() => {});
  return { result, waits, calls: turn };
}

function fine(headers: Record<string, string> = {}): Response {
  const date = new Date(DATE * 1000).toUTCString();
  return Response.json({ id: "sub_1" }, { headers: { date, ...headers } });
}

function fault(status: number, headers = {}): () => Response {
  return () =>
    Response.json({ error: { message: "No." } }, { status, headers });
}

Deno.test("callStripe() waits for Retry-After, up to one minute", async () => {
  const { result, waits } = await asked([
    fault(429, { "retry-after": "3" }),
    fault(429, { "retry-after": "0" }),
    fault(429, { "retry-after": "86400" }),
    fault(429, { "retry-after": "Fri, 31 Dec 1999 23:59:59 GMT" }),
    fault(429),
    fine,
  ]);
  assertEquals((await result).data.id, "sub_1");
  assertEquals(waits, [3_000, 0, 60_000, 4_000, 8_000]);
});

Deno.test("callStripe() retries failures of Stripe and of the network", async () => {
  const broken = new ReadableStream({
    start: (controller) => controller.error(new Error("cut off")),
  });
  const { result, waits } = await asked([
    fault(500),
    fault(503),
    () => new Response("<html>", { status: 502 }),
    () => Promise.reject(new TypeError("connection refused")),
    () => new Response(broken),
    fine,
  ]);
  assertEquals((await result).data.id, "sub_1");
  assertEquals(waits, [500, 1_000, 2_000, 4_000, 8_000]);
});

Deno.test("callStripe() retries a fault of something in between, which names no error", async () => {
  const { result, waits } = await asked([
    () => Response.json({}, { status: 503, headers: { "retry-after": "3" } }),
    () => Response.json({ message: "busy" }, { status: 429 }),
    fine,
  ]);
  assertEquals((await result).data.id, "sub_1");
  assertEquals(waits, [3_000, 1_000]);
});

Deno.test("callStripe() gives up after seven tries", async () => {
  const { result, calls } = await asked(Array(7).fill(fault(503)));
  await assertRejects(() => result, Error, "No.");
  assertEquals(calls, 7);
});

Deno.test("callStripe() does not retry a refusal", async () => {
  for (const status of [400, 401, 403, 404]) {
    const { result, calls } = await asked([fault(status)]);
    await assertRejects(() => result, Error, "No.");
    assertEquals(calls, 1);
    const between = await asked([() => Response.json({}, { status })]);
    await assertRejects(() => between.result, Error, `answered ${status}`);
    assertEquals(between.calls, 1);
  }
});

Deno.test("callStripe() returns Stripe's time before the call", async () => {
  const quick = await asked([fine]);
  assertEquals((await quick.result).askedAtSeconds, DATE - 1);
  const slow = await asked([async () => {
    await new Promise((resolve) => setTimeout(resolve, 1_050));
    return fine();
  }]);
  assertEquals((await slow.result).askedAtSeconds, DATE - 2);
});

Deno.test("callStripe() refuses an answer without a Date header", async () => {
  const { result } = await asked([() => Response.json({ id: "sub_1" })]);
  await assertRejects(() => result, Error, "no Date header");
});
