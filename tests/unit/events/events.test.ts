import { assert, assertEquals, assertNotEquals } from "@std/assert";
import type Stripe from "stripe";
import { invoiceEvent } from "../../../scripts/events/invoice_event.ts";
import { paymentIntentEvent } from "../../../scripts/events/payment_intent_event.ts";
import {
  subscriptionEvent,
  type SubscriptionEventOptions,
} from "../../../scripts/events/subscription_event.ts";
import { API_VERSIONS, TEMPLATES } from "../../../scripts/events/templates.ts";

const CREATED = 1_800_000_000;
const PERIOD_END = 1_802_345_678;
const DAY_SECONDS = 86_400;
const UPDATED = "customer.subscription.updated";
const MONTHLY = "price_1ExampleMonthly0000000001";

/** What an update says it replaced, besides the period and the items. */
const PREVIOUS: [SubscriptionEventOptions, expected: object][] = [
  [{ previous: {} }, {}],
  [{ previous: { status: "trialing" } }, { status: "trialing" }],
  [
    {
      previous: {
        customer: null,
        cancelAt: null,
        cancelAtPeriodEnd: false,
        trialEnd: CREATED,
      },
    },
    {
      customer: null,
      cancel_at: null,
      cancel_at_period_end: false,
      trial_end: CREATED,
    },
  ],
  [
    { previous: { paused: "void" } },
    { pause_collection: { behavior: "void", resumes_at: null } },
  ],
  [
    { paused: "void", previous: { paused: null } },
    { pause_collection: null },
  ],
  [
    { paused: "void", previous: { paused: "keep_as_draft" } },
    { pause_collection: { behavior: "keep_as_draft" } },
  ],
];

for (const apiVersion of API_VERSIONS) {
  const isOld = apiVersion === "2024-06-20";

  for (
    const [name, status] of [
      ["created", "active"],
      ["updated", "past_due"],
      ["deleted", "canceled"],
    ] as const
  ) {
    const type = `customer.subscription.${name}` as const;
    Deno.test(`${type} of ${apiVersion} has the given values wherever its own were`, () => {
      const event = subscriptionEvent(type, {
        id: "evt_mine",
        created: CREATED,
        subscription: "sub_$&mine",
        account: "acc_mine",
        plan: "price_mine",
        periodEnd: PERIOD_END,
        apiVersion,
      });
      const { object } = event.data;
      const [item] = object.items.data;
      assertEquals(
        [event.id, event.type, event.created, event.api_version],
        ["evt_mine", type, CREATED, apiVersion],
      );
      assertEquals([object.id, object.status], ["sub_$&mine", status]);
      assertEquals([object.metadata, item.subscription, object.customer], [
        { accountId: "acc_mine" },
        "sub_$&mine",
        "cus_$&mine",
      ]);
      assertEquals(
        new Set([object.plan.id, item.plan.id, item.price.id]),
        new Set(["price_mine"]),
      );
      assertEquals(
        [object.current_period_end, item.current_period_end],
        isOld ? [PERIOD_END, undefined] : [undefined, PERIOD_END],
      );
      assertEquals("previous_attributes" in event.data, name === "updated");
      const text = JSON.stringify(event);
      for (const left of ["evt_1", "sub_1", "acc_1", "cus_Example"]) {
        assertEquals(text.includes(left), false, left);
      }
      assert(text.includes("?subscription=sub_$&mine"));
    });
  }

  Deno.test(`all times of an event of ${apiVersion} move together`, () => {
    const type = "customer.subscription.created";
    const event = subscriptionEvent(type, { created: CREATED, apiVersion });
    const { current_period_end } = isOld
      ? event.data.object
      : event.data.object.items.data[0];
    assertEquals(current_period_end, CREATED + 31 * DAY_SECONDS);
    const timesOf = (value: { created?: number }) =>
      Array.from(
        JSON.stringify(value).matchAll(/:(\d{10})\b/g),
        ([, time]) => Number(time) - value.created!,
      ).sort();
    assertEquals(timesOf(event), timesOf(TEMPLATES[type]));
  });

  for (const [options, expected] of PREVIOUS) {
    Deno.test(`an update of ${apiVersion} with ${JSON.stringify(options)} says no more than it replaced`, () => {
      const { data } = subscriptionEvent(UPDATED, { ...options, apiVersion });
      const { latest_invoice, ...others } = data.previous_attributes ?? {};
      assertNotEquals(latest_invoice, data.object.latest_invoice);
      assertEquals(others, expected);
    });
  }

  Deno.test(`an update of ${apiVersion} sends a changed item whole`, () => {
    const { data } = subscriptionEvent(UPDATED, {
      plan: "P2",
      quantity: 2,
      created: CREATED,
      previous: { plan: "P1", quantity: 3, periodEnd: CREATED + 9 },
      apiVersion,
    });
    const { items, plan, quantity, current_period_end } = JSON.parse(
      JSON.stringify(data.previous_attributes),
    );
    const [{ id, ...item }] = items.data;
    assertEquals([plan.id, item.plan.id, item.price.id], ["P1", "P1", "P1"]);
    assertEquals([quantity, item.quantity], [3, 3]);
    assertEquals(
      [current_period_end, item.current_period_end],
      isOld ? [CREATED + 9, undefined] : [undefined, CREATED + 9],
    );
    const [now] = data.object.items.data;
    assertEquals([now.id, now.price.id, now.quantity], [id, "P2", 2]);

    const period = subscriptionEvent(UPDATED, {
      previous: { periodEnd: CREATED },
      apiVersion,
    }).data;
    assertEquals("items" in period.previous_attributes!, !isOld);
    const { items: others } = subscriptionEvent(UPDATED, {
      quantity: null,
      periodEnd: PERIOD_END,
      previous: { quantity: null, plan: "P1" },
      apiVersion,
    }).data.previous_attributes as { items: { data: [object] } };
    assertEquals("quantity" in others.data[0], false);
    assertEquals(
      Object.entries(others.data[0]).find(([name]) =>
        name === "current_period_end"
      )?.[1],
      isOld ? undefined : PERIOD_END,
    );
  });

  Deno.test(`an update of ${apiVersion} says by default what its template replaced`, () => {
    const { previous_attributes: all } =
      subscriptionEvent(UPDATED, { apiVersion }).data;
    assertEquals(all?.["status"], "active");
    assertEquals((all?.["plan"] as { id: string }).id, MONTHLY);
    const { previous_attributes: less } = subscriptionEvent(UPDATED, {
      status: "active",
      plan: MONTHLY,
      apiVersion,
    }).data;
    assertEquals("status" in less! || "plan" in less!, false);
    assert("billing_cycle_anchor" in less!);
  });

  Deno.test(`invoiceEvent() of ${apiVersion} names its subscription at its place`, () => {
    const { id, created, api_version, data: { object } } = invoiceEvent({
      id: "evt_mine",
      created: CREATED,
      invoice: "in_mine",
      subscription: "sub_mine",
      account: "acc_mine",
      apiVersion,
    });
    assertEquals([id, created, api_version], ["evt_mine", CREATED, apiVersion]);
    assertEquals([object.id, object.customer], ["in_mine", "cus_mine"]);
    assertEquals(
      [object.subscription, object.parent?.subscription_details.subscription],
      isOld ? ["sub_mine", undefined] : [undefined, "sub_mine"],
    );
    assertEquals(object.lines.data[0].metadata.accountId, "acc_mine");
    const text = JSON.stringify(object);
    assertEquals(/(?:sub|acc|in)_1/.test(text), false);
    assert(text.includes("/v1/invoices/in_mine/lines"));
  });
}

Deno.test("subscriptionEvent() reports what it is told, and leaves out what is null", () => {
  const { livemode, data: { object } } = subscriptionEvent(UPDATED, {
    account: null,
    customer: "cus_mine",
    quantity: null,
    cancelAt: CREATED,
    cancelAtPeriodEnd: true,
    trialEnd: PERIOD_END,
    paused: "void",
    livemode: true,
  });
  assertEquals([livemode, object.livemode], [true, true]);
  assertEquals([object.metadata, object.customer], [{}, "cus_mine"]);
  assert(!("quantity" in object || "quantity" in object.items.data[0]));
  assertEquals([object.cancel_at, object.trial_end], [CREATED, PERIOD_END]);
  assertEquals(object.cancel_at_period_end, true);
  assertEquals(object.pause_collection, { behavior: "void", resumes_at: null });

  const none = { created: null, previous: null, livemode: null };
  const event = subscriptionEvent(UPDATED, none);
  assert(!("created" in event || "livemode" in event));
  assert(!("livemode" in event.data.object));
  assert(!("previous_attributes" in event.data));
});

Deno.test("event builders make new IDs and date events now", () => {
  const earliest = Math.floor(Date.now() / 1000);
  for (
    const build of [
      () => subscriptionEvent(UPDATED),
      () => invoiceEvent(),
      () => paymentIntentEvent(),
    ]
  ) {
    const [one, other] = [build(), build()];
    assertNotEquals(one.id, other.id);
    assertNotEquals(one.data.object.id, other.data.object.id);
    assert(one.created! >= earliest && one.created! <= Date.now() / 1000);
  }
});

type RequiredKeys<T> = {
  [K in keyof T]-?: Record<never, never> extends Pick<T, K> ? never : K;
}[keyof T];

/** Compiles only if `object` has every field that the SDK's type requires. */
function isWhole<T>(object: Record<RequiredKeys<T>, unknown>): boolean {
  return Object.keys(object).length > 0;
}

Deno.test("a subscription's event has every field of the pinned SDK's types", () => {
  const event = TEMPLATES["customer.subscription.created"];
  const { object } = event.data;
  const item = object.items.data[0]!;
  assert(isWhole<Stripe.Event>(event));
  assert(isWhole<Stripe.Subscription>(object));
  assert(isWhole<Stripe.SubscriptionItem>(item));
  assert(isWhole<Stripe.Price>(item.price));
  assert(isWhole<Stripe.Plan>(item.plan));
});
