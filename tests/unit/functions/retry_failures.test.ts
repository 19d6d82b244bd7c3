import { assertEquals, assertRejects } from "@std/assert";
import { createClient } from "../../../supabase/functions/_shared/billing/database.ts";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import type { UnmappedChoice } from "../../../supabase/functions/_shared/billing/config.ts";
import {
  type ClaimedFailure,
  retryFailures,
} from "../../../supabase/functions/billing-worker/retry_failures.ts";
import { edited } from "../../support/edited.ts";
import { invoiceEvent } from "../../../scripts/events/invoice_event.ts";
import { paymentIntentEvent } from "../../../scripts/events/payment_intent_event.ts";
import { subscriptionEvent } from "../../../scripts/events/subscription_event.ts";
import { withoutAccount } from "../../support/without_account.ts";

const NOTHING = {
  claimed: 0,
  failed: 0,
  applied: 0,
  duplicate: 0,
  stale: 0,
  ignored: 0,
};
const LEASE = "00ea7bdb-ac40-475d-b354-f87fe5d7c4c1";
const NOW = Date.parse("2026-11-21T06:00:00Z");

function claimed(
  body: object | string,
  { event_id = "evt_1", body_encoding = "text" } = {},
): ClaimedFailure {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return {
    provider: "b",
    event_id,
    body: text,
    body_encoding,
  };
}

/** What `billing_apply_events` is given of an event, as far as tests look. */
interface Applied {
  readonly event_id: string;
  readonly provider: string;
  readonly retry: unknown;
  readonly payment: object;
}

/** The outcome of an event, as the database answers it. */
interface Answer {
  readonly outcome: string;
  readonly error_code?: string;
  readonly error?: string;
}

/**
 * Retries in a database that hands out these batches, one a claim, and applies
 * every event unless told.
 */
function retry(
  batches: ClaimedFailure[][],
  {
    outcomeOf = () => ({ outcome: "applied" }),
    answers = {},
    clock,
    unmappedSubscriptions = "fail",
    oncePerInvoice = false,
  }: {
    outcomeOf?: (event: Applied) => Answer;
    answers?: Record<string, () => Response>;
    clock?: () => number;
    unmappedSubscriptions?: UnmappedChoice;
    oncePerInvoice?: boolean;
  } = {},
) {
  const calls: string[] = [];
  const applied: Applied[] = [];
  const settled: Record<string, unknown>[] = [];
  const logged: unknown[] = [];
  let turn = 0;

  function answer(name: string, body: Record<string, unknown>): Response {
    const own = answers[name];
    if (own) return own();
    switch (name) {
      case "billing_claim_failed_events":
        return Response.json(batches[turn++] ?? []);
      case "billing_apply_events": {
        const events = body["events"] as Applied[];
        applied.push(...events);
        return Response.json(
          events.map((event, i) => ({ place: i + 1, ...outcomeOf(event) }))
            // As in the database, whose order is another.
            .reverse(),
        );
      }
      case "billing_settle_failed_events": {
        const results = body["results"] as Record<string, unknown>[];
        settled.push(...results);
        return Response.json(results.length);
      }
    }
    throw new Error(`Nobody calls ${name}`);
  }

  const counts = retryFailures({
    leaseId: LEASE,
    database: createClient({
      supabaseUrl: "http://database.test",
      secretKey: "sb_secret_unit",
    }, {
      fetch: (input, init) => {
        const name = String(input).split("/").pop() ?? "";
        calls.push(name);
        const body = JSON.parse(String(init?.body));
        if (name !== "billing_apply_events") {
          assertEquals(body.p_lease_id, LEASE);
        }
        return Promise.resolve(answer(name, body));
      },
    }),
    unmappedSubscriptions,
    oncePerInvoice,
    toleranceSeconds: 60,
    log: (...line) => void logged.push(line),
    clock: clock ?? (() => NOW),
  });
  return { counts, calls, applied, settled, logged };
}

Deno.test("retryFailures() asks once if no retry is requested", async () => {
  const { counts, calls } = retry([]);
  assertEquals(await counts, NOTHING);
  assertEquals(calls, ["billing_claim_failed_events"]);
});

Deno.test("retryFailures() applies an event as its provider's, and settles its row", async () => {
  const event = subscriptionEvent("customer.subscription.created", {
    account: "acc_1",
    created: NOW / 1000,
  });
  const { counts, applied, settled } = retry([[claimed(event)]]);
  assertEquals(await counts, { ...NOTHING, claimed: 1, applied: 1 });
  assertEquals(
    applied.map(({ event_id, provider, retry }) => [event_id, provider, retry]),
    [[event.id, "b", { event_id: "evt_1", lease_id: LEASE }]],
  );
  assertEquals(settled, [{
    provider: "b",
    event_id: "evt_1",
    type: event.type,
    kind: "creation",
    subscription_id: event.data.object.id,
    customer_id: event.data.object.customer,
    account_id: "acc_1",
    occurred_at: new Date(NOW).toISOString(),
    outcome: "applied",
  }]);
});

Deno.test("retryFailures() stores for each row the outcome of its own event", async () => {
  const created = NOW / 1000;
  const good = ["evt_2", "evt_4", "evt_6", "evt_7"].map((id) =>
    invoiceEvent({ id, created })
  );
  const [second, fourth, sixth, seventh] = good.map((event) =>
    claimed(event, { event_id: event.id })
  );
  const { counts, applied, settled } = retry([[
    claimed("{", { event_id: "evt_1" }),
    second!,
    claimed(paymentIntentEvent(), { event_id: "evt_3" }),
    fourth!,
    claimed(edited(good[0]!, { id: undefined }), { event_id: "evt_5" }),
    sixth!,
    seventh!,
  ]], {
    outcomeOf: ({ event_id }) => {
      switch (event_id) {
        case "evt_2":
          return { outcome: "duplicate" };
        case "evt_4":
          return {
            outcome: "failed",
            error_code: "BW001",
            error: "No subscription sub_4 is recorded.",
          };
        case "evt_6":
          return { outcome: "stale" };
        default:
          return { outcome: "applied" };
      }
    },
  });
  assertEquals(await counts, {
    claimed: 7,
    failed: 3,
    applied: 1,
    duplicate: 1,
    stale: 1,
    ignored: 1,
  });
  assertEquals(applied.length, 4);
  assertEquals(
    settled.map((row) => [
      row["event_id"],
      row["outcome"],
      row["error_code"],
      row["error"],
    ]),
    [
      ["evt_1", "failed", "body_not_json", "The body is not valid JSON"],
      ["evt_2", "duplicate", undefined, undefined],
      ["evt_3", "ignored", undefined, undefined],
      [
        "evt_4",
        "failed",
        "subscription_unknown",
        "No subscription sub_4 is recorded.",
      ],
      [
        "evt_5",
        "failed",
        "event_invalid",
        "id is missing",
      ],
      ["evt_6", "stale", undefined, undefined],
      ["evt_7", "applied", undefined, undefined],
    ],
  );
});

Deno.test("retryFailures() leaves a locked row to the next run", async () => {
  const events = ["evt_1", "evt_2"].map((id) =>
    invoiceEvent({ id, created: NOW / 1000 })
  );
  const { counts, settled, logged } = retry([
    events.map((event) => claimed(event, { event_id: event.id })),
  ], {
    outcomeOf: ({ event_id }) =>
      event_id === "evt_1"
        ? { outcome: "failed", error_code: "55P03", error: "locked" }
        : { outcome: "applied" },
  });
  assertEquals(await counts, { ...NOTHING, claimed: 2, failed: 1, applied: 1 });
  assertEquals(logged, [[
    "warn",
    "another session has locked the records; the next run tries again",
    { counts: { locked: 1 } },
  ]]);
  assertEquals(settled.map((row) => row["event_id"]), ["evt_2"]);
});

Deno.test("retryFailures() leaves what waits for a locked creation to the next run", async () => {
  const created = NOW / 1000;
  const creation = subscriptionEvent("customer.subscription.created", {
    id: "evt_1",
    subscription: "sub_1",
    account: "acc_1",
    created,
  });
  const updates = [["evt_2", "sub_1"], ["evt_3", "sub_2"]].map((
    [id, subscription],
  ) =>
    subscriptionEvent("customer.subscription.updated", {
      id: id!,
      subscription: subscription!,
      created,
    })
  );
  // Without an account in it, an update may be nobody's.
  const orphan = edited(updates[0]!, {
    id: "evt_4",
    "data.object.metadata": {},
  });
  const events = [creation, ...updates, orphan];
  const { counts, settled } = retry([
    events.map((event) => claimed(event, { event_id: event.id })),
  ], {
    outcomeOf: ({ event_id }) => ({
      outcome: "failed",
      error_code: event_id === "evt_1" ? "55P03" : "BW001",
      error: "no",
    }),
    unmappedSubscriptions: "ignore",
  });
  assertEquals(await counts, { ...NOTHING, claimed: 4, failed: 4 });
  assertEquals(settled.map((row) => row["event_id"]), ["evt_3"]);
});

Deno.test("retryFailures() calls nothing to apply if no body is an event with an effect", async () => {
  const { counts, calls } = retry([[
    claimed(""),
    claimed(paymentIntentEvent()),
  ]]);
  assertEquals(await counts, {
    ...NOTHING,
    claimed: 2,
    failed: 1,
    ignored: 1,
  });
  assertEquals(calls, [
    "billing_claim_failed_events",
    "billing_settle_failed_events",
    "billing_claim_failed_events",
  ]);
});

Deno.test("retryFailures() asks for one notification per invoice if so configured", async () => {
  const batch = () => [[claimed(invoiceEvent({ created: NOW / 1000 }))]];
  for (const oncePerInvoice of [true, false]) {
    const { counts, applied } = retry(batch(), { oncePerInvoice });
    assertEquals((await counts).applied, 1);
    assertEquals(applied.map(({ payment }) => "once_per_invoice" in payment), [
      oncePerInvoice,
    ]);
  }
});

Deno.test("retryFailures() decodes what is kept as base64", async () => {
  const event = JSON.stringify(
    invoiceEvent({ id: "evt_ü", created: NOW / 1000 }),
  );
  const bytes = new TextEncoder().encode(event);
  const { counts, applied, settled } = retry([[
    claimed(btoa(String.fromCharCode(...bytes)), { body_encoding: "base64" }),
    claimed(btoa("\x80\x80"), { body_encoding: "base64" }),
    claimed("no base64!", { body_encoding: "base64" }),
  ]]);
  assertEquals(await counts, {
    ...NOTHING,
    claimed: 3,
    applied: 1,
    failed: 2,
  });
  assertEquals(applied[0]?.event_id, "evt_ü");
  assertEquals(settled.map((row) => row["error_code"]), [
    undefined,
    "body_not_text",
    "internal_error",
  ]);
});

Deno.test("retryFailures() ignores unmapped events if so configured", async () => {
  const creation = subscriptionEvent("customer.subscription.created", {
    created: NOW / 1000,
  });
  const unmapped = withoutAccount(creation);
  const batch = () => [
    claimed(unmapped),
    claimed(btoa(JSON.stringify(unmapped)), { body_encoding: "base64" }),
    // Neither is an unmapped event, and neither ends the run.
    claimed(edited(creation, { "data.object.id": null })),
    claimed(btoa("\x80\x80"), { body_encoding: "base64" }),
  ];
  // As the database answers for a creation without an account.
  const outcomeOf = () => ({
    outcome: "failed",
    error_code: "BW005",
    error: "data.object.metadata.accountId is missing",
  });
  const ignoring = retry([batch()], {
    unmappedSubscriptions: "ignore",
    outcomeOf,
  });
  const expected = { ...NOTHING, claimed: 4, ignored: 2, failed: 2 };
  assertEquals(await ignoring.counts, expected);
  const outcomes = ["ignored", "ignored", "failed", "failed"];
  assertEquals(ignoring.settled.map((row) => row["outcome"]), outcomes);

  const failing = retry([batch()], { outcomeOf });
  assertEquals(await failing.counts, { ...NOTHING, claimed: 4, failed: 4 });
});

Deno.test("retryFailures() holds an event's time against the clock, as a delivery does", async () => {
  const { counts, settled } = retry([[
    claimed(invoiceEvent({ created: NOW / 1000 + 61 })),
    claimed(invoiceEvent({ created: NOW / 1000 + 60 })),
  ]]);
  assertEquals((await counts).applied, 1);
  assertEquals(settled[0]?.["error_code"], "event_invalid");
});

Deno.test("retryFailures() applies what was dated ahead once its time has come", async () => {
  const event = () => [claimed(invoiceEvent({ created: NOW / 1000 + 3_600 }))];
  const early = retry([event()]);
  assertEquals((await early.counts).failed, 1);
  assertEquals(early.applied, []);
  const later = retry([event()], { clock: () => NOW + 3_600_000 });
  assertEquals((await later.counts).applied, 1);
});

Deno.test("retryFailures() goes on until nothing is left", async () => {
  const batch = () => [claimed(invoiceEvent({ created: NOW / 1000 }))];
  const { counts, calls } = retry([batch(), batch(), batch()]);
  assertEquals((await counts).claimed, 3);
  assertEquals(calls.length, 10);
});

Deno.test("retryFailures() leaves the rest to the next run after 20 s", async () => {
  const batch = () => [claimed(paymentIntentEvent())];
  let timeMs = NOW;
  const { counts } = retry([batch(), batch(), batch(), batch()], {
    // Each batch looks at the clock twice: 7 s a batch.
    clock: () => timeMs += 3_500,
  });
  assertEquals((await counts).claimed, 3);
});

for (
  const [failing, calls] of [
    ["billing_claim_failed_events", 1],
    ["billing_apply_events", 2],
    ["billing_settle_failed_events", 3],
  ] as const
) {
  Deno.test(`retryFailures() ends its run if ${failing} fails`, async () => {
    const event = invoiceEvent({ created: NOW / 1000 });
    const { counts, calls: made, settled } = retry([[claimed(event)]], {
      answers: {
        [failing]: () =>
          Response.json({ code: "57014", message: "canceling statement" }, {
            status: 500,
          }),
      },
    });
    const error = await assertRejects(() => counts, DeliveryError);
    assertEquals(error.code, "database_unavailable");
    assertEquals([made.length, settled], [calls, []]);
  });
}
