import {
  assert,
  assertEquals,
  assertNotEquals,
  assertStringIncludes,
} from "@std/assert";
import { invoiceEvent } from "../../../scripts/events/invoice_event.ts";
import { paymentIntentEvent } from "../../../scripts/events/payment_intent_event.ts";
import { subscriptionEvent } from "../../../scripts/events/subscription_event.ts";
import {
  API_VERSIONS,
  EVENT_TYPES,
  type EventType,
  TEMPLATES,
} from "../../../scripts/events/templates.ts";

const CREATED = 1_800_000_000;
const PERIOD_END = 1_802_345_678;
const SUBSCRIPTION_TYPES = EVENT_TYPES.filter((type) =>
  type.startsWith("customer.subscription.")
) as Extract<EventType, `customer.subscription.${string}`>[];
const UPDATED = "customer.subscription.updated";

/** The paths of everything in `value` that `matches`. */
function pathsOf(
  value: unknown,
  matches: (leaf: unknown) => boolean,
  path = "",
): string[] {
  if (typeof value !== "object" || value === null) {
    return matches(value) ? [path.slice(1)] : [];
  }
  return Object.entries(value).flatMap(([name, member]) =>
    pathsOf(member, matches, `${path}.${name}`)
  );
}

for (const apiVersion of API_VERSIONS) {
  for (const type of SUBSCRIPTION_TYPES) {
    Deno.test(`subscriptionEvent() fills in ${type} of ${apiVersion} everywhere`, () => {
      const template = TEMPLATES[apiVersion][type];
      const before = JSON.stringify(template);
      const event = subscriptionEvent(type, {
        id: "evt_mine",
        created: CREATED,
        subscription: "sub_$&mine",
        account: "acc_mine",
        plan: "price_mine",
        periodEnd: PERIOD_END,
        status: "trialing",
        apiVersion,
      });

      const { object } = event.data;
      const item = object.items.data[0];
      assertEquals(event.id, "evt_mine");
      assertEquals(event.created, CREATED);
      assertEquals(event.type, type);
      assertEquals(event.api_version, apiVersion);
      assertEquals(object.id, "sub_$&mine");
      assertEquals(object.status, "trialing");
      assertEquals(object.metadata.accountId, "acc_mine");
      assertEquals(
        [object.plan.id, item.plan.id, item.price.id],
        ["price_mine", "price_mine", "price_mine"],
      );
      assertEquals(
        object.current_period_end ?? item.current_period_end,
        PERIOD_END,
      );
      // Every place where the template has its own, has the new one.
      const templateSubscription = template.data.object.id;
      assertEquals(
        pathsOf(event, (leaf) => `${leaf}`.includes("sub_$&mine")),
        pathsOf(template, (leaf) => `${leaf}`.includes(templateSubscription)),
      );
      for (const left of [templateSubscription, template.id, "acc_1Example"]) {
        assertEquals(pathsOf(event, (leaf) => `${leaf}`.includes(left)), []);
      }
      assertEquals(JSON.stringify(template), before);
    });

    Deno.test(`subscriptionEvent() keeps ${type} of ${apiVersion} as large and whole as it is`, () => {
      const event = subscriptionEvent(type, { apiVersion });
      const template = TEMPLATES[apiVersion][type];
      assertEquals(pathsOf(event, () => true), pathsOf(template, () => true));
    });
  }

  Deno.test(`subscriptionEvent() moves all times of ${apiVersion} by the same`, () => {
    const type = "customer.subscription.created";
    const event = subscriptionEvent(type, { created: CREATED, apiVersion });
    const { object } = event.data;
    const end = object.current_period_end ??
      object.items.data[0].current_period_end;
    assertEquals(end, CREATED + 31 * 86_400);
    const template = TEMPLATES[apiVersion][type];
    const isTime = (leaf: unknown) => Number(leaf) > 1e9;
    const shift = CREATED - template.created;
    const times = (value: unknown) =>
      JSON.stringify(value).match(/\b\d{10}\b/g)?.map(Number) ?? [];
    assertEquals(pathsOf(event, isTime), pathsOf(template, isTime));
    assertEquals(times(event), times(template).map((time) => time + shift));
  });

  Deno.test(`subscriptionEvent() tells what an update of ${apiVersion} replaced`, () => {
    const previous = { status: "trialing", plan: "P1", periodEnd: CREATED + 9 };
    const whole = subscriptionEvent(UPDATED, {
      plan: "P2",
      created: CREATED,
      previous,
      apiVersion,
    }).data;
    const attributes = JSON.parse(JSON.stringify(whole.previous_attributes));
    const [item] = attributes.items.data;
    assertEquals(attributes.status, "trialing");
    assertEquals([attributes.plan.id, item.plan.id, item.price.id], [
      "P1",
      "P1",
      "P1",
    ]);
    assertEquals(
      attributes.current_period_end ?? item.current_period_end,
      CREATED + 9,
    );
    assertEquals(item.subscription, whole.object.id);
    assertEquals(whole.object.items.data[0].price.id, "P2");
  });

  Deno.test(`subscriptionEvent() leaves out what an update of ${apiVersion} did not replace`, () => {
    const { previous_attributes: status } = subscriptionEvent(UPDATED, {
      previous: { status: "trialing" },
      apiVersion,
    }).data;
    assertEquals(Object.keys(status ?? {}).sort(), [
      "latest_invoice",
      "status",
    ]);

    const { previous_attributes: nothing } = subscriptionEvent(UPDATED, {
      previous: {},
      apiVersion,
    }).data;
    assertEquals(Object.keys(nothing ?? {}), ["latest_invoice"]);

    const plan = subscriptionEvent(UPDATED, {
      plan: "P2",
      periodEnd: PERIOD_END,
      previous: { plan: "P1" },
      apiVersion,
    }).data;
    const attributes = JSON.parse(JSON.stringify(plan.previous_attributes));
    assert(!("status" in attributes) && !("current_period_end" in attributes));
    assertEquals(attributes.items.data[0].price.id, "P1");
    assertEquals(
      attributes.items.data[0].current_period_end,
      plan.object.items.data[0].current_period_end,
    );
  });

  Deno.test(`subscriptionEvent() reports only fields of ${apiVersion} that changed`, () => {
    const { previous_attributes } = subscriptionEvent(UPDATED, {
      status: "active",
      plan: TEMPLATES[apiVersion]["customer.subscription.created"].data.object
        .plan.id,
      apiVersion,
    }).data;
    assert(!("status" in (previous_attributes ?? {})));
    assert(!("plan" in (previous_attributes ?? {})));
  });

  Deno.test(`subscriptionEvent() reports what it is told in ${apiVersion}, and what that replaced`, () => {
    const { livemode, data } = subscriptionEvent(UPDATED, {
      account: null,
      customer: "cus_mine",
      quantity: null,
      cancelAt: CREATED,
      cancelAtPeriodEnd: true,
      trialEnd: PERIOD_END,
      paused: "void",
      livemode: true,
      previous: {
        customer: null,
        quantity: 3,
        cancelAt: null,
        cancelAtPeriodEnd: false,
        trialEnd: CREATED,
        paused: "keep_as_draft",
      },
      apiVersion,
    });
    const { object, previous_attributes } = data;
    assertEquals([livemode, object.livemode], [true, true]);
    assertEquals(object.metadata, {});
    assertEquals(object.customer, "cus_mine");
    assert(!("quantity" in object || "quantity" in object.items.data[0]));
    assertEquals([object.cancel_at, object.trial_end], [CREATED, PERIOD_END]);
    assertEquals(object.cancel_at_period_end, true);
    assertEquals(object.pause_collection, {
      behavior: "void",
      resumes_at: null,
    });

    const { items, latest_invoice: _, ...others } = JSON.parse(
      JSON.stringify(previous_attributes),
    );
    assertEquals(items.data[0].quantity, 3);
    assertEquals(items.data[0].price, object.items.data[0].price);
    assertEquals(others, {
      customer: null,
      quantity: 3,
      cancel_at: null,
      cancel_at_period_end: false,
      trial_end: CREATED,
      // Of an object, only what changed.
      pause_collection: { behavior: "keep_as_draft" },
    });
  });

  Deno.test(`subscriptionEvent() sends a pause of ${apiVersion} whole if there is none on the other side`, () => {
    const whole = { behavior: "void", resumes_at: null };
    const resumed = subscriptionEvent(UPDATED, {
      previous: { paused: "void" },
      apiVersion,
    }).data;
    assertEquals(resumed.object.pause_collection, null);
    assertEquals(resumed.previous_attributes?.["pause_collection"], whole);
    const paused = subscriptionEvent(UPDATED, {
      paused: "void",
      previous: { paused: null },
      apiVersion,
    }).data;
    assertEquals(paused.previous_attributes?.["pause_collection"], null);
  });

  Deno.test(`events of one subscription of ${apiVersion} have one customer, of two have two`, () => {
    const customers = ["sub_one", "sub_one", "sub_two"].flatMap((
      subscription,
    ) => [
      subscriptionEvent(UPDATED, { subscription, apiVersion }),
      invoiceEvent({ subscription, apiVersion }),
    ]).map(({ data }) => data.object.customer);
    assertEquals(new Set(customers), new Set(["cus_one", "cus_two"]));
  });

  Deno.test(`invoiceEvent() fills in ${apiVersion} everywhere`, () => {
    const event = invoiceEvent({
      id: "evt_mine",
      created: CREATED,
      invoice: "in_mine",
      subscription: "sub_mine",
      account: "acc_mine",
      apiVersion,
    });
    const { object } = event.data;
    assertEquals([event.id, event.created], ["evt_mine", CREATED]);
    assertEquals(object.id, "in_mine");
    assertEquals(
      object.subscription ?? object.parent?.subscription_details.subscription,
      "sub_mine",
    );
    assertEquals(object.lines.data[0].subscription, "sub_mine");
    assertEquals(object.lines.data[0].metadata.accountId, "acc_mine");
    const text = JSON.stringify(event);
    for (const left of ["sub_1", "acc_1", "in_1", "evt_1"]) {
      assert(!text.includes(left), left);
    }
    assertStringIncludes(text, "/v1/invoices/in_mine/lines");
  });

  Deno.test(`paymentIntentEvent() makes an event of ${apiVersion}`, () => {
    const event = paymentIntentEvent({ created: CREATED, apiVersion });
    assertEquals(event.type, "payment_intent.payment_failed");
    assertEquals([event.api_version, event.created], [apiVersion, CREATED]);
  });
}

Deno.test("subscriptionEvent() leaves out created and previous_attributes for null", () => {
  const event = subscriptionEvent(UPDATED, { created: null, previous: null });
  assert(!("created" in event));
  assert(!("previous_attributes" in event.data));
});

Deno.test("event builders make new ids and date events now", () => {
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
    assert(one.created !== undefined && one.created >= earliest);
    assert(one.created <= Date.now() / 1000);
  }
});
