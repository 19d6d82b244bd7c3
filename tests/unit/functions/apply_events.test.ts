import { assert, assertEquals, assertRejects } from "@std/assert";
import {
  applyEvents,
  applyWithHandler,
  type BillingEvent,
} from "../../../supabase/functions/_shared/billing/database/apply_events.ts";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import { codeOf, fakeDatabase, refusal } from "./fixtures.ts";

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
Deno.test("applyEvents() returns each event's own outcome, by place and not by order", async () => {
  const rows = OUTCOMES.flatMap(([answer], i) =>
    answer ? { place: i + 1, ...answer } : []
  ).reverse();
  const events = [PAID, ...Array<BillingEvent>(6).fill(EVENT)];
  const { database, calls } = fakeDatabase(() => Response.json(rows));
  for (const oncePerInvoice of [true, undefined]) {
    let wakes = 0;
    const results = await applyEvents(events, {
      database,
      onRetries: () => void wakes++,
      ...(oncePerInvoice && { oncePerInvoice }),
    });

    const texts = results.map((result) =>
      typeof result === "string" ? result : `${result.code}: ${result.message}`
    );
    assertEquals(texts, OUTCOMES.map(([, result]) => result));
    assertEquals(wakes, 1);
    const once = oncePerInvoice ? { once_per_invoice: true } : {};
    const sent = [
      { ...EVENT, payment: { ...payment, ...once } },
      ...Array(6).fill(EVENT),
    ].map((event, i) => ({ place: i + 1, ...event }));
    assertEquals(calls.pop(), ["apply_events", { events: sent }]);
  }
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
  // It was slow, and Postgres ended the call as a whole.
  assertEquals(await codeOf(applyHandled(refusal("57014"))), "apply_failed");
  const lost = await assertRejects(() => applyHandled(refusal("PGRST001")));
  assert(/functions run deallocate/.test(`${lost}`), `${lost}`);
  for (const code of ["57014", "PGRST001"]) {
    assertEquals(await codeOf(apply(refusal(code))), "database_unavailable");
  }
});
