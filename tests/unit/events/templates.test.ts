import { assert, assertEquals, assertMatch } from "@std/assert";
import type Stripe from "stripe";
import {
  API_VERSIONS,
  EVENT_TYPES,
  TEMPLATES,
} from "../../../scripts/events/templates.ts";

const all = API_VERSIONS.flatMap((version) =>
  EVENT_TYPES.map((type) => ({
    version,
    type,
    event: TEMPLATES[version][type],
  }))
);

for (const { version, type, event } of all) {
  Deno.test(`${version} ${type} is a whole event of its name`, () => {
    assertEquals(event.type, type);
    assertEquals(event.api_version, version);
    assertEquals(event.object, "event");
    assertMatch(event.id, /^evt_1Example\w+$/);
    const bytes = new TextEncoder().encode(JSON.stringify(event)).length;
    assert(bytes > 2_400 && bytes < 6_000, `${bytes} bytes when compact`);
  });

  Deno.test(`${version} ${type} names nobody`, () => {
    const text = JSON.stringify(event);
    for (const [address] of text.matchAll(/[\w.]+@[\w.]+/g)) {
      assertEquals(address, "billing@example.com");
    }
    for (const [, name] of text.matchAll(/"(?:customer_)?name":([^,}]+)/g)) {
      assertEquals(name, "null");
    }
    for (
      const [id] of text.matchAll(
        /\b(?:evt|sub|si|in|il|cus|price|prod|pm|pi|ch|req|acct)_\w*\d\w*/g,
      )
    ) {
      assertMatch(id, /Example/);
    }
  });
}

Deno.test("TEMPLATES of 2024-06-20 have the fields where the specification puts them", () => {
  const templates = TEMPLATES["2024-06-20"];
  for (
    const type of [
      "customer.subscription.created",
      "customer.subscription.updated",
      "customer.subscription.deleted",
    ] as const
  ) {
    const { object } = templates[type].data;
    assertMatch(object.id, /^sub_/);
    assertMatch(object.metadata.accountId, /^acc_1/);
    assertMatch(object.items.data[0]?.price.id ?? "", /^price_/);
    assert(Number.isInteger(object.current_period_end));
    assert(!("current_period_end" in (object.items.data[0] ?? {})));
  }
  const invoice = templates["invoice.payment_failed"].data.object;
  assertMatch(invoice.subscription, /^sub_/);
  assert(!("parent" in invoice));
});

Deno.test("TEMPLATES since 2025-03-31 have the fields where Stripe moved them", () => {
  const templates = TEMPLATES["2026-10-28.endive"];
  for (
    const type of [
      "customer.subscription.created",
      "customer.subscription.updated",
      "customer.subscription.deleted",
    ] as const
  ) {
    const { object } = templates[type].data;
    assert(Number.isInteger(object.items.data[0]?.current_period_end));
    assert(!("current_period_end" in object));
    assert(!("current_period_start" in object));
  }
  const invoice = templates["invoice.payment_failed"].data.object;
  assertMatch(invoice.parent.subscription_details.subscription, /^sub_/);
  assert(!("subscription" in invoice));
});

Deno.test("TEMPLATES tell what an update replaced, and only there", () => {
  for (const { type, event } of all) {
    const isUpdate = type === "customer.subscription.updated";
    assertEquals("previous_attributes" in event.data, isUpdate);
  }
  for (const version of API_VERSIONS) {
    const { data } = TEMPLATES[version]["customer.subscription.updated"];
    const { previous_attributes: previous, object } = data;
    assert(previous.status !== object.status);
    assert(previous.plan.id !== object.plan.id);
    assert(previous.items.data[0]?.price.id !== object.items.data[0]?.price.id);
  }
});

type RequiredKeys<T> = {
  [K in keyof T]-?: Record<never, never> extends Pick<T, K> ? never : K;
}[keyof T];

/** Compiles only if `object` has every field that the SDK's type requires. */
function isWhole<T>(object: Record<RequiredKeys<T>, unknown>): boolean {
  return Object.keys(object).length > 0;
}

Deno.test("TEMPLATES of the newest version have every field of the pinned SDK's types", () => {
  const templates = TEMPLATES["2026-10-28.endive"];
  const { object: subscription } =
    templates["customer.subscription.created"].data;
  const item = subscription.items.data[0];
  const { object: invoice } = templates["invoice.payment_failed"].data;
  const line = invoice.lines.data[0];
  assert(item !== undefined && line !== undefined);
  assert(isWhole<Stripe.Event>(templates["customer.subscription.created"]));
  assert(isWhole<Stripe.Subscription>(subscription));
  assert(isWhole<Stripe.SubscriptionItem>(item));
  assert(isWhole<Stripe.Price>(item.price));
  assert(isWhole<Stripe.Plan>(item.plan));
  assert(isWhole<Stripe.Invoice>(invoice));
  assert(isWhole<Stripe.InvoiceLineItem>(line));
  assert(
    isWhole<Stripe.PaymentIntent>(
      templates["payment_intent.payment_failed"].data.object,
    ),
  );
});
