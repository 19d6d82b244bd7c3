import { assert, assertEquals } from "@std/assert";
import type Stripe from "stripe";
import { compare } from "../../../scripts/stripe_sync/corrections.ts";
import type { SubscriptionRecord } from "../../../scripts/stripe_sync/records.ts";
import { subscriptionEvent } from "../../../scripts/events/event.ts";
import { API_VERSIONS } from "../../../scripts/events/templates.ts";

const ASKED_AT = Date.parse("2026-11-21T10:00:00Z") / 1000;
const RECORD: SubscriptionRecord = {
  id: "sub_1",
  provider: "a",
  account_id: "acc_1",
  status: "active",
  plan_id: "price_1",
  current_period_end: "2027-01-15T08:00:00+00:00",
  canceled_at: null,
  account_as_of: "2026-11-01T10:00:00+00:00",
  changed_as_of: "2026-11-21T10:05:00+00:00",
  canceled_as_of: null,
};
const OPTIONS = { provider: "a", accountFrom: undefined, askedAt: ASKED_AT };

function shown(
  changes: object = {},
  apiVersion = API_VERSIONS[0],
): Stripe.Subscription {
  const { data: { object } } = subscriptionEvent(
    "customer.subscription.updated",
    {
      ...(apiVersion === undefined ? {} : { apiVersion }),
      subscription: "sub_1",
      account: "acc_1",
      plan: "price_1",
      periodEnd: 1_800_000_000,
      status: "active",
    },
  );
  return { ...object, ...changes } as unknown as Stripe.Subscription;
}

/** What would correct the record, in short. */
function corrections(
  subscription: Stripe.Subscription,
  record: SubscriptionRecord | undefined,
) {
  const comparison = compare(subscription, { ...OPTIONS, record });
  assert("corrections" in comparison, comparison.result);
  return comparison.corrections;
}

function types(subscription: Stripe.Subscription, record?: SubscriptionRecord) {
  return corrections(subscription, record).map(({ type }) =>
    type.split(".").pop()
  );
}

Deno.test("compare() finds nothing where nothing differs, whatever the API version", () => {
  for (const apiVersion of API_VERSIONS) {
    const subscription = shown({}, apiVersion);
    assertEquals(compare(subscription, { ...OPTIONS, record: RECORD }), {
      result: "same",
    });
  }
  const record = { ...RECORD, status: "canceled", canceled_at: "2026-01-01" };
  const canceled = shown({ status: "canceled" });
  assertEquals(compare(canceled, { ...OPTIONS, record }).result, "same");
  // It was canceled and came back: the time of that is this service's own.
  const back = { ...RECORD, canceled_at: "2026-01-01" };
  assertEquals(compare(shown(), { ...OPTIONS, record: back }).result, "same");
});

Deno.test("compare() names each field that differs", () => {
  const record = {
    ...RECORD,
    provider: "b",
    account_id: "acc_2",
    status: "past_due",
    plan_id: "price_2",
    current_period_end: "2027-01-15T09:00:00+00:00",
  };
  const comparison = compare(shown({ status: "canceled" }), {
    ...OPTIONS,
    record,
  });
  assertEquals(comparison.result === "differs" && comparison.fields, [
    { field: "provider", here: "b", there: "a" },
    { field: "account_id", here: "acc_2", there: "acc_1" },
    { field: "status", here: "past_due", there: "canceled" },
    { field: "plan_id", here: "price_2", there: "price_1" },
    {
      field: "current_period_end",
      here: "2027-01-15T09:00:00.000Z",
      there: "2027-01-15T08:00:00.000Z",
    },
    { field: "canceled_at", here: null, there: "set" },
  ]);
});

Deno.test("compare() corrects with the events that the change takes, no more", () => {
  assertEquals(types(shown()), ["created", "updated"]);
  assertEquals(types(shown({ status: "canceled" })), [
    "created",
    "updated",
    "deleted",
  ]);
  const record = RECORD;
  assertEquals(types(shown({ status: "trialing" }), record), ["updated"]);
  assertEquals(types(shown({ status: "canceled" }), record), [
    "updated",
    "deleted",
  ]);
  const canceled = { ...RECORD, canceled_at: "2026-01-01" };
  assertEquals(types(shown({ status: "canceled" }), canceled), ["updated"]);
  const moved = { ...RECORD, account_id: "acc_2" };
  assertEquals(types(shown(), moved), ["created", "updated"]);
});

Deno.test("compare() finds a record frozen whose mark is over five minutes ahead, and sets the mark anew", () => {
  const ahead = "2026-11-21T10:05:01+00:00";
  const field = {
    here: "2026-11-21T10:05:01.000Z",
    there: "at most 2026-11-21T10:05:00.000Z",
  };
  const cases = [
    ["account_as_of", "active", ["created", "updated"]],
    ["changed_as_of", "active", ["updated"]],
    ["canceled_as_of", "active", ["updated"]],
    ["canceled_as_of", "canceled", ["updated", "deleted"]],
  ] as const;
  for (const [mark, status, expected] of cases) {
    const canceled_at = status === "canceled" ? "2026-11-21" : null;
    const record = { ...RECORD, status, canceled_at, [mark]: ahead };
    const comparison = compare(shown({ status }), { ...OPTIONS, record });
    assert(comparison.result === "differs");
    assertEquals(comparison.fields, [{ field: mark, ...field }]);
    assert(comparison.isFrozen);
    assertEquals(types(shown({ status }), record), [...expected]);
  }
  const record = { ...RECORD, status: "past_due" };
  const comparison = compare(shown(), { ...OPTIONS, record });
  assert(comparison.result === "differs" && !comparison.isFrozen);
});

Deno.test("compare() dates corrections between two seconds, before the provider was asked", () => {
  for (
    const { created } of corrections(shown({ status: "canceled" }), undefined)
  ) {
    assertEquals(created, "2026-11-21T09:59:54.500Z");
  }
});

Deno.test("compare() makes the same event of the same correction, and another of another", () => {
  const ids = (subscription: Stripe.Subscription, askedAt: number) => {
    const options = { ...OPTIONS, askedAt, record: undefined };
    const comparison = compare(subscription, options);
    assert(comparison.result === "missing");
    return comparison.corrections.map(({ event_id }) => event_id);
  };
  const first = ids(shown(), ASKED_AT);
  assertEquals(ids(shown(), ASKED_AT), first);
  const others = [
    ...ids(shown(), ASKED_AT + 1),
    ...ids(shown({ status: "paused" }), ASKED_AT),
  ];
  assertEquals(new Set([...first, ...others]).size, 6);
  assert(first.every((id) => /^import_[0-9a-f]{64}$/.test(id)));
});

Deno.test("compare() maps nothing that belongs to no account, unless it is recorded", () => {
  const nobodys = shown({ metadata: {}, customer: "cus_1" });
  assertEquals(compare(nobodys, { ...OPTIONS, record: undefined }), {
    result: "unmapped",
    customer: "cus_1",
  });
  const record = RECORD;
  assertEquals(compare(nobodys, { ...OPTIONS, record }).result, "same");
  const mapped = compare(nobodys, {
    ...OPTIONS,
    record: undefined,
    accountFrom: "customer",
  });
  assertEquals(mapped.result === "missing" && mapped.account, "cus_1");
});

Deno.test("compare() changes nothing by a subscription that lacks what is needed", () => {
  for (const record of [undefined, RECORD]) {
    const comparison = compare(shown({ items: { data: [] } }), {
      ...OPTIONS,
      record,
    });
    assertEquals(comparison.result, "unreadable");
  }
});
