import { assertEquals } from "@std/assert";
import { handledEvent } from "../../../supabase/functions/_shared/billing/formats/stripe.ts";
import { paymentDetails } from "../../../supabase/functions/_shared/billing/payment_details.ts";

const CREATED = 1_793_624_405;
const PERIOD_END = 1_796_212_800;

/** As Stripe sends it since 2025-03-31.basil, with fields that nothing reads. */
const ITEM = {
  id: "si_1",
  price: { id: "price_1", product: "prod_1" },
  current_period_start: 1_793_620_800,
  current_period_end: PERIOD_END,
  quantity: 5,
};
const SUBSCRIPTION = {
  id: "sub_1",
  object: "subscription",
  status: "trialing",
  customer: "cus_1",
  metadata: { accountId: "acc_1", other: "x" },
  cancel_at: null,
  cancel_at_period_end: true,
  trial_end: PERIOD_END,
  pause_collection: { behavior: "void", resumes_at: null },
  items: { object: "list", data: [ITEM, { price: null }, "rubbish"] },
  unread: { any: ["thing"] },
};

function event(type: string, data: unknown): unknown {
  return {
    id: "evt_1",
    object: "event",
    type,
    created: CREATED,
    livemode: false,
    api_version: "2026-10-28.endive",
    pending_webhooks: 1,
    data,
  };
}

const REPORT = {
  provider_status: "trialing",
  customer_id: "cus_1",
  quantity: 5,
  cancel_at: "2026-12-02T12:00:00.000Z",
  trial_end: "2026-12-02T12:00:00.000Z",
  paused: "void",
  livemode: false,
};

const COMMON = { event_id: "evt_1", created: "2026-11-02T13:00:05.000Z" };

Deno.test("handledEvent reads a creation", () => {
  const object = SUBSCRIPTION;
  assertEquals<unknown>(
    handledEvent.parse(event("customer.subscription.created", { object })),
    {
      ...COMMON,
      type: "customer.subscription.created",
      subscription_id: "sub_1",
      account_id: "acc_1",
      plan_id: "price_1",
      current_period_end: "2026-12-02T12:00:00.000Z",
      ...REPORT,
    },
  );
});

Deno.test("handledEvent reads an update, and what it replaced", () => {
  const previous_attributes = {
    status: "incomplete",
    items: {
      data: [{
        price: { id: "price_0" },
        current_period_end: CREATED,
        quantity: 2,
      }],
    },
    trial_end: null,
    latest_invoice: "in_1",
  };
  assertEquals<unknown>(
    handledEvent.parse(event("customer.subscription.updated", {
      object: SUBSCRIPTION,
      previous_attributes,
    })),
    {
      ...COMMON,
      type: "customer.subscription.updated",
      subscription_id: "sub_1",
      status: "trialing",
      plan_id: "price_1",
      current_period_end: "2026-12-02T12:00:00.000Z",
      ...REPORT,
      previous: {
        status: "incomplete",
        plan_id: "price_0",
        current_period_end: CREATED,
        provider_status: "incomplete",
        quantity: 2,
        // The period that it replaced would have been the end.
        cancel_at: CREATED,
        trial_end: null,
      },
    },
  );
});

Deno.test("handledEvent prefers the replaced period where the specification puts it", () => {
  const { previous } = handledEvent.parse(
    event("customer.subscription.updated", {
      object: SUBSCRIPTION,
      previous_attributes: {
        current_period_end: CREATED,
        items: { data: [{ current_period_end: PERIOD_END, quantity: 5 }] },
        // Nor is there an end to which it was going to be canceled.
        cancel_at_period_end: false,
      },
    }),
  ) as { previous: unknown };
  assertEquals(previous, {
    status: undefined,
    plan_id: undefined,
    current_period_end: CREATED,
    cancel_at: null,
  });
});

Deno.test("handledEvent drops rubbish in what an update replaced, part by part", () => {
  const none = {
    status: undefined,
    plan_id: undefined,
    current_period_end: undefined,
  };
  const good = { price: { id: "price_0" }, current_period_end: CREATED };
  const cases: [previous: unknown, expected: unknown][] = [
    [undefined, null],
    [null, null],
    ["rubbish", null],
    [[], none],
    [{}, none],
    [{ status: 1, items: null }, none],
    [{ status: "a\0b", current_period_end: 1e12 }, none],
    [{ status: "active", items: { data: [] } }, { ...none, status: "active" }],
    [
      { status: {}, items: { data: [good, "rubbish"] } },
      { ...none, plan_id: "price_0", current_period_end: CREATED },
    ],
    [
      { items: { data: [{ ...good, price: null }] } },
      { ...none, current_period_end: CREATED },
    ],
    [
      { items: { data: [{ ...good, current_period_end: "x" }] } },
      { ...none, plan_id: "price_0" },
    ],
    [
      { current_period_end: null, items: { data: [good] } },
      { ...none, plan_id: "price_0", current_period_end: CREATED },
    ],
  ];
  for (const [previous_attributes, expected] of cases) {
    const parsed = handledEvent.parse(
      event("customer.subscription.updated", {
        object: SUBSCRIPTION,
        previous_attributes,
      }),
    ) as { previous: Record<string, unknown> | null };
    assertEquals(
      parsed.previous && {
        status: parsed.previous["status"],
        plan_id: parsed.previous["plan_id"],
        current_period_end: parsed.previous["current_period_end"],
      },
      expected,
      JSON.stringify(previous_attributes),
    );
  }
});

Deno.test("handledEvent reads nothing but id and customer of a deletion", () => {
  const object = {
    id: "sub_1",
    customer: { id: "cus_1" },
    status: 1,
    items: "rubbish",
    metadata: null,
  };
  assertEquals<unknown>(
    handledEvent.parse(event("customer.subscription.deleted", { object })),
    {
      ...COMMON,
      type: "customer.subscription.deleted",
      subscription_id: "sub_1",
      customer_id: "cus_1",
    },
  );
});

Deno.test("handledEvent reads a failed invoice of either API shape", () => {
  const parent = { subscription_details: { subscription: "sub_1" } };
  for (const place of [{ subscription: "sub_1" }, { parent }]) {
    const object = { id: "in_1", status: "open", ...place };
    assertEquals<unknown>(
      handledEvent.parse(event("invoice.payment_failed", { object })),
      {
        ...COMMON,
        type: "invoice.payment_failed",
        subscription_id: "sub_1",
        invoice_id: "in_1",
        customer_id: null,
        ...paymentDetails({}),
      },
    );
  }
});

Deno.test("handledEvent needs no id of an invoice", () => {
  for (const id of [undefined, null, 1, "", "a\nb"]) {
    const object = { id, subscription: "sub_1" };
    const parsed = handledEvent.parse(
      event("invoice.payment_failed", { object }),
    ) as { invoice_id?: string };
    assertEquals(parsed.invoice_id, undefined);
  }
});
