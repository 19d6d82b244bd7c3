/**
 * What is called again, and when: Stripe through its own package, and the
 * database.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import Stripe from "stripe";
import type { Wait } from "../../../scripts/stripe_sync/retry.ts";
import { callStripe } from "../../../scripts/stripe_sync/stripe_source.ts";
import { openTables } from "../../../scripts/stripe_sync/tables.ts";
import type { BillingEvent } from "../../../supabase/functions/_shared/billing/apply_events.ts";
import type { DatabaseClient } from "../../../supabase/functions/_shared/billing/database.ts";

type Answer = () => Response | Promise<Response>;

const DATE = Date.parse("2026-11-21T10:00:30Z") / 1000;

/** Returns what a call results in, and the waits before it was repeated. */
async function called<T>(call: (wait: Wait) => Promise<T>) {
  const waits: number[] = [];
  const wait = (ms: number) => Promise.resolve(void waits.push(ms));
  const [result] = await Promise.allSettled([call(wait)]);
  return { result, waits };
}

/** Calls a Stripe that gives these answers. */
function asked(answers: readonly Answer[]) {
  const left = [...answers];
  const stripe = new Stripe("sk_test_unit", {
    maxNetworkRetries: 0,
    timeout: 500,
    httpClient: Stripe.createFetchHttpClient((_url, init) => {
      const aborted = Promise.withResolvers<never>();
      init?.signal?.addEventListener(
        "abort",
        () => aborted.reject(new DOMException("", "AbortError")),
      );
      return Promise.race([left.shift()!(), aborted.promise]);
    }),
  });
  return called((wait) =>
    callStripe(() => stripe.subscriptions.retrieve("sub_1"), wait)
  );
}

function fine(): Response {
  const date = new Date(DATE * 1000).toUTCString();
  return Response.json({ id: "sub_1" }, { headers: { date } });
}

function fault(status: number, retryAfter?: string): Answer {
  const headers = retryAfter ? { "retry-after": retryAfter } : {};
  return () =>
    Response.json({ error: { message: "No." } }, { status, headers });
}

const CUT_OFF = new ReadableStream({
  start: (controller) => controller.error(new Error("cut off")),
});

Deno.test("callStripe() waits as Retry-After says, up to a minute, and repeats what failed, broke off or never came", async () => {
  for (
    const [answers, expected] of [
      [[
        fault(429, "3"),
        fault(429, "0"),
        fault(429, "86400"),
        fault(429, "Fri, 31 Dec 1999 23:59:59 GMT"),
        fault(429),
      ], [3_000, 0, 60_000, 4_000, 8_000]],
      [[
        fault(500),
        () => new Response("<html>", { status: 502 }),
        () => Promise.reject(new TypeError("connection refused")),
        () => new Response(CUT_OFF),
        () => new Promise<never>(() => {}),
        fault(503),
      ], [500, 1_000, 2_000, 4_000, 8_000, 16_000]],
    ] as const
  ) {
    const { result, waits } = await asked([...answers, fine]);
    assertEquals([result.status, ...waits], ["fulfilled", ...expected]);
  }
});

Deno.test("callStripe() gives up after seven tries, and at once after a refusal", async () => {
  for (const status of [503, 400, 401, 403, 404]) {
    const { result, waits } = await asked(Array(7).fill(fault(status)));
    assert(result.status === "rejected");
    assertEquals(result.reason.message, "No.");
    assertEquals(waits.length, status === 503 ? 6 : 0);
  }
});

Deno.test("callStripe() returns Stripe's time before the call, and needs one", async () => {
  const { result } = await asked([fine]);
  assert(result.status === "fulfilled");
  assertEquals(result.value.askedAtSeconds, DATE - 1);
  const without = await asked([() => Response.json({ id: "sub_1" })]);
  assert(without.result.status === "rejected");
  assert(`${without.result.reason}`.includes("no Date header"));
});

Deno.test("apply() repeats the call while the database is unavailable or a record locked", async () => {
  const failed = { place: 1, outcome: "failed" };
  const answers = [
    { data: null, error: null, status: 503 },
    { data: [{ ...failed, error_code: "55P03" }], error: null },
    { data: [{ ...failed, error_code: "23514" }], error: null },
  ];
  const rpc: unknown = () => ({
    abortSignal: () => Promise.resolve(answers.shift()),
  });
  const database = { rpc } as DatabaseClient;
  const options = { database, provider: "a", oncePerInvoice: false } as const;
  const { result, waits } = await called((wait) =>
    openTables(options, wait).apply([{} as BillingEvent])
  );
  assert(result.status === "fulfilled");
  assertEquals([result.value.length, answers, waits], [1, [], [500, 1_000]]);
});
