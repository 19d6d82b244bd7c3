import { assertEquals, assertRejects } from "@std/assert";
import {
  applyEvents,
  type BillingEvent,
  type Outcome,
} from "../../../supabase/functions/_shared/billing/apply_events.ts";
import { createClient } from "../../../supabase/functions/_shared/billing/database.ts";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";

const EVENT: BillingEvent = {
  provider: "b",
  event_id: "evt_1",
  type: "invoice.payment_failed",
  kind: "payment_failed",
  occurred_at: null,
  subscription_id: "sub_1",
  report: { customer_id: null },
};

/** Applies the event against a database that answers so. */
async function applyTo(answer: () => Response): Promise<{
  result: Promise<Outcome>;
  requests: { url: string; body: unknown }[];
}> {
  const requests: { url: string; body: unknown }[] = [];
  const database = createClient({
    supabaseUrl: "http://database.test",
    secretKey: "sb_secret_unit",
  }, {
    fetch: (input, init) => {
      const body = JSON.parse(String(init?.body));
      requests.push({ url: String(input), body });
      return Promise.resolve(answer());
    },
  });
  const result = applyEvents([EVENT], { database }).then(([first]) => {
    if (typeof first !== "string") throw first;
    return first;
  });
  await result.catch(() => {});
  return { result, requests };
}

function outcome(row: Record<string, unknown>): () => Response {
  return () =>
    Response.json([{ place: 1, error_code: null, error: null, ...row }]);
}

for (const became of ["applied", "duplicate", "stale"]) {
  Deno.test(`applyEvents() reports an event that is ${became}, in one call`, async () => {
    const { result, requests } = await applyTo(
      outcome({ outcome: became }),
    );
    assertEquals<string>(await result, became);
    assertEquals(requests, [{
      url: "http://database.test/rest/v1/rpc/billing_apply_events",
      body: {
        events: [{ place: 1, ...EVENT }],
      },
    }]);
  });
}

Deno.test("applyEvents() says why an event failed, with Postgres's own codes", async () => {
  for (
    const [code, expected, says] of [
      ["BW001", "subscription_unknown", "Says why."],
      ["57014", "database_unavailable", "57014: Says why."],
    ] as const
  ) {
    const { result, requests } = await applyTo(
      outcome({ outcome: "failed", error_code: code, error: "Says why." }),
    );
    const error = await assertRejects(() => result, DeliveryError);
    assertEquals([error.code, error.message], [expected, says]);
    assertEquals(requests.length, 1);
  }
});

Deno.test("applyEvents() returns each event's own outcome, by place and not by order", async () => {
  const database = createClient({
    supabaseUrl: "http://database.test",
    secretKey: "sb_secret_unit",
  }, {
    fetch: () =>
      Promise.resolve(Response.json([
        { place: 3, outcome: "stale", error_code: null, error: null },
        { place: 1, outcome: "applied", error_code: null, error: null },
        { place: 2, outcome: "failed", error_code: "BW001", error: "No." },
      ])),
  });
  const results = await applyEvents([EVENT, EVENT, EVENT], { database });
  assertEquals(
    results.map((result) => typeof result === "string" ? result : result.code),
    ["applied", "subscription_unknown", "stale"],
  );
});

Deno.test("applyEvents() throws the fault of the call", async () => {
  const { result } = await applyTo(() =>
    Response.json({ code: "PGRST202", message: "no function" }, { status: 404 })
  );
  const error = await assertRejects(() => result, DeliveryError);
  assertEquals(error.code, "deployment_fault");
});

Deno.test("applyEvents() never takes garbage for success", async () => {
  const answers = [
    [],
    [null],
    [[]],
    ["applied"],
    "applied",
    {},
    { outcome: "applied" },
    [{}],
    [{ outcome: null }],
    [{ outcome: "APPLIED" }],
    [{ outcome: "constructor" }],
    [{ outcome: ["applied"] }],
    true,
    1,
    null,
  ];
  for (const answer of answers) {
    for (const status of [200, 404]) {
      const { result } = await applyTo(() => Response.json(answer, { status }));
      const error = await assertRejects(() => result, DeliveryError);
      assertEquals(
        error.code,
        "database_unavailable",
        JSON.stringify({ status, answer }),
      );
    }
  }
});
