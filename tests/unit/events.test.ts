import { assert, assertEquals } from "@std/assert";
import type Stripe from "stripe";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { paymentEvent } from "../../scripts/events/payment_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { API_VERSIONS } from "../../scripts/events/templates.ts";

const CREATED = 1_800_000_000;
const PERIOD_END = 1_802_345_678;
const UPDATED = "customer.subscription.updated";

type Shown = ReturnType<typeof subscriptionEvent>["data"]["object"];
const plansOf = ({ plan, items: { data: [item] } }: Shown) =>
  new Set([plan.id, item.plan.id, item.price.id]);
const endsOf = ({ current_period_end, items: { data: [item] } }: Shown) => [
  current_period_end,
  item.current_period_end,
];

for (const apiVersion of API_VERSIONS) {
  const isOld = apiVersion === "2024-06-20";
  const given = { id: "evt_mine", created: CREATED, apiVersion };
  const mine = { ...given, subscription: "sub_$&mine", account: "acc_mine" };
  /** A value at its old place and at its new one. */
  const places = (value: unknown) =>
    isOld ? [value, undefined] : [undefined, value];

  Deno.test(`events of ${apiVersion} have the given values wherever their own were`, () => {
    const all = {
      ...{ created: "active", updated: "past_due", paused: "paused" },
      ...{ resumed: "active", deleted: "canceled" },
    };
    const values = { plan: "price_mine", periodEnd: PERIOD_END };
    for (const [name, status] of Object.entries(all)) {
      const type = `customer.subscription.${name as keyof typeof all}` as const;
      const event = subscriptionEvent(type, { ...mine, ...values });
      const { data } = event;
      assertEquals(event.type, type);
      const { object, previous_attributes } = data;
      assertEquals([object.id, object.status], ["sub_$&mine", status]);
      assertEquals(plansOf(object), new Set(["price_mine"]));
      assertEquals(endsOf(object), places(PERIOD_END));
      assertEquals(previous_attributes !== undefined, name === "updated");
    }
    const invoice = invoiceEvent({ ...mine, invoice: "in_mine" });
    const { subscription, parent } = invoice.data.object;
    const found = [subscription, parent?.subscription_details.subscription];
    assertEquals(found, places("sub_$&mine"));
    const payment = paymentEvent("checkout.session.completed", mine);
    const refund = paymentEvent("charge.refunded", mine);
    const paid = invoiceEvent({ ...mine, invoice: "in_mine" }, "invoice.paid");
    for (
      const event of [
        ...[subscriptionEvent(UPDATED, mine), invoice, paid, payment, refund],
      ]
    ) {
      const { id, created } = event;
      const text = JSON.stringify(event);
      assertEquals([id, created], ["evt_mine", CREATED]);
      assertEquals(
        text.match(/(?:evt|sub|acc)_1|Invoice0+3|cus_Ex|Payment0/g),
        null,
      );
      assert(text.includes("acc_mine") && text.includes("cus_$&mine"));
    }
  });

  Deno.test(`an update of ${apiVersion} says what it replaced, and sends a changed item whole`, () => {
    const previous = (options: Parameters<typeof subscriptionEvent>[1]) => {
      const { data } = subscriptionEvent(UPDATED, { ...given, ...options });
      const { latest_invoice: _, ...others } = JSON.parse(
        JSON.stringify(data.previous_attributes),
      );
      return others;
    };
    const pause = { behavior: "void", resumes_at: null };
    for (
      const [options, expected] of [
        [{ previous: {} }, {}],
        [{ previous: { status: "unpaid" } }, { status: "unpaid" }],
        [{ previous: { trialEnd: CREATED } }, { trial_end: CREATED }],
        [{ previous: { paused: "void" } }, { pause_collection: pause }],
        [{ previous: { paused: null } }, { pause_collection: null }],
        [{ paused: "x", previous: { paused: "void" } }, {
          pause_collection: { behavior: "void" },
        }],
      ] as const
    ) assertEquals(previous(options), expected);
    const change = { plan: "P1", quantity: 3, periodEnd: PERIOD_END };
    const former = previous({ plan: "P2", previous: change });
    assertEquals(plansOf(former), new Set(["P1"]));
    assertEquals([former.quantity, former.items.data[0].quantity], [3, 3]);
    assertEquals(endsOf(former), places(PERIOD_END));
    const periodAlone = previous({ previous: { periodEnd: PERIOD_END } });
    assertEquals("items" in periodAlone, !isOld);
    const addOns = [{ price: "P4", quantity: 2 }];
    const told = { plan: "P3", addOns, previous: { quantity: 3 } };
    const whole = previous(told).items.data;
    assertEquals(
      (whole as Shown["items"]["data"]).map((item) =>
        [item.price.id, item.quantity, !item.current_period_end].join()
      ),
      [`P3,3,${isOld}`, `P4,2,${isOld}`],
    );
    assert("plan" in previous({}), "by default, what the template replaced");
  });
}

Deno.test("subscriptionEvent() reports what it is told, and leaves out what is null", () => {
  const missing = { account: null, quantity: null, created: null };
  const times = { cancelAt: CREATED, trialEnd: PERIOD_END };
  const told = { ...missing, ...times, customer: "cus_mine", livemode: true };
  const event = subscriptionEvent(UPDATED, { ...told, previous: null });
  const { object } = event.data;
  assertEquals([event.livemode, object.livemode], [true, true]);
  assertEquals([object.metadata, object.customer], [{}, "cus_mine"]);
  assert(!("quantity" in object || "quantity" in object.items.data[0]));
  assertEquals([object.cancel_at, object.trial_end], [CREATED, PERIOD_END]);
  assert(!("created" in event || "previous_attributes" in event.data));
  const other = { livemode: null, cancelAtPeriodEnd: true };
  const { data, ...rest } = subscriptionEvent(UPDATED, other);
  assertEquals(data.object.cancel_at_period_end, true);
  assert(!("livemode" in data.object || "livemode" in rest));
});

Deno.test("a trial that will end does so in three days, and a paid invoice is paid", () => {
  const trial = "customer.subscription.trial_will_end";
  const { created, data: { object } } = subscriptionEvent(trial);
  const { current_period_end } = object;
  const end = created! + 3 * 86_400;
  assertEquals([object.trial_end, current_period_end], [end, end]);
  assertEquals(object.status, "trialing");
  const ends = { trialEnd: PERIOD_END, created: CREATED };
  assertEquals(
    subscriptionEvent(trial, ends).data.object.trial_end,
    PERIOD_END,
  );
  const paid = invoiceEvent({ created: CREATED }, "invoice.paid").data.object;
  const { status, amount_paid, amount_remaining } =
    paid as unknown as Stripe.Invoice;
  assertEquals([status, amount_paid, amount_remaining], ["paid", 1900, 0]);
});
