import { assert, assertEquals } from "@std/assert";
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
}
