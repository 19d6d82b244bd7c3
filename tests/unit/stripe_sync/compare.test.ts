import { assert, assertEquals } from "@std/assert";
import type Stripe from "stripe";
import { compare } from "../../../scripts/stripe_sync/compare.ts";
import {
  type FieldDifference,
  isFrozen,
} from "../../../scripts/stripe_sync/field_differences.ts";
import type { SubscriptionRecord } from "../../../scripts/stripe_sync/records.ts";
import { subscriptionEvent } from "../../../scripts/events/subscription_event.ts";
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
  provider_status: "active",
  customer_id: "cus_1",
  quantity: 1,
  cancel_at: null,
  trial_end: null,
  paused: null,
  livemode: false,
  account_as_of: "2026-11-01T10:00:00+00:00",
  changed_as_of: "2026-11-21T10:05:00+00:00",
  changed_by_update: true,
  canceled_as_of: null,
};
const OPTIONS = {
  provider: "a",
  accountFrom: undefined,
  askedAtSeconds: ASKED_AT,
};

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

/** The events that correct the record. */
function corrections(
  subscription: Stripe.Subscription,
  record: SubscriptionRecord | undefined,
) {
  return compare(subscription, { ...OPTIONS, record }).corrections;
}

/** The fields that differ. */
function fields(subscription: Stripe.Subscription, record: SubscriptionRecord) {
  const { difference } = compare(subscription, { ...OPTIONS, record });
  assert(difference?.kind === "differs", difference?.kind);
  return difference.fields;
}

function types(subscription: Stripe.Subscription, record?: SubscriptionRecord) {
  return corrections(subscription, record).map(({ type }) =>
    type.split(".").pop()
  );
}

const SAME = { subscription: "sub_1", difference: undefined, corrections: [] };

Deno.test("compare() finds nothing if nothing differs, in any API version", () => {
  for (const apiVersion of API_VERSIONS) {
    const subscription = shown({}, apiVersion);
    assertEquals(compare(subscription, { ...OPTIONS, record: RECORD }), SAME);
  }
  // A deletion sets the status, and provider_status stays.
  const record = { ...RECORD, status: "canceled", canceled_at: "2026-01-01" };
  const canceled = shown({ status: "canceled" });
  assertEquals(compare(canceled, { ...OPTIONS, record }), SAME);
  // Nobody knows what an update reported last.
  const unreported = { ...record, provider_status: null };
  assertEquals(compare(canceled, { ...OPTIONS, record: unreported }), SAME);
  // It was canceled and came back: the time of that is the receiver's own.
  const back = { ...RECORD, canceled_at: "2026-01-01" };
  assertEquals(compare(shown(), { ...OPTIONS, record: back }), SAME);
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
  assertEquals(fields(shown({ status: "canceled" }), record), [
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

Deno.test("compare() names each reported value that differs, in any API version", () => {
  const item = { price: { id: "price_1" }, current_period_end: 1_800_000_000 };
  const cases: [object, Partial<SubscriptionRecord>, FieldDifference][] = [
    [{ status: "paused" }, { status: "paused" }, {
      field: "provider_status",
      here: "active",
      there: "paused",
    }],
    [{ customer: { id: "cus_2" } }, {}, {
      field: "customer_id",
      here: "cus_1",
      there: "cus_2",
    }],
    [{ items: { data: [{ ...item, quantity: 5 }] } }, {}, {
      field: "quantity",
      here: 1,
      there: 5,
    }],
    // Metered: the API leaves it out.
    [{ items: { data: [item] } }, {}, {
      field: "quantity",
      here: 1,
      there: null,
    }],
    [{ cancel_at_period_end: true, cancel_at: null }, {}, {
      field: "cancel_at",
      here: null,
      there: "2027-01-15T08:00:00.000Z",
    }],
    [{ cancel_at: 1_800_003_600, cancel_at_period_end: false }, {}, {
      field: "cancel_at",
      here: null,
      there: "2027-01-15T09:00:00.000Z",
    }],
    [{ trial_end: null }, { trial_end: "2027-01-15T08:00:00+00:00" }, {
      field: "trial_end",
      here: "2027-01-15T08:00:00.000Z",
      there: null,
    }],
    [{ pause_collection: { behavior: "void", resumes_at: null } }, {}, {
      field: "paused",
      here: null,
      there: "void",
    }],
    [{ livemode: true }, {}, { field: "livemode", here: false, there: true }],
  ];
  for (const apiVersion of API_VERSIONS) {
    for (const [changes, here, expected] of cases) {
      const subscription = shown(changes, apiVersion);
      assertEquals(fields(subscription, { ...RECORD, ...here }), [expected]);
    }
  }
  const trial = shown({ trial_end: 1_800_000_000 });
  const record = { ...RECORD, trial_end: "2027-01-15T08:00:00+00:00" };
  assertEquals(compare(trial, { ...OPTIONS, record }), SAME);
});

Deno.test("compare() corrects with the values that the receiver reads from an event", () => {
  for (const apiVersion of API_VERSIONS) {
    const subscription = shown({
      status: "past_due",
      cancel_at_period_end: true,
      cancel_at: null,
      trial_end: 1_790_000_000,
      pause_collection: { behavior: "keep_as_draft", resumes_at: null },
      livemode: true,
    }, apiVersion);
    for (const event of corrections(subscription, undefined)) {
      const { occurred_at: _, event_id: __, ...values } = event;
      assertEquals<unknown>(values, {
        type: event.type,
        provider: "a",
        subscription_id: "sub_1",
        report: {
          plan_id: "price_1",
          current_period_end: "2027-01-15T08:00:00.000Z",
          provider_status: "past_due",
          customer_id: "cus_1",
          quantity: 1,
          cancel_at: "2027-01-15T08:00:00.000Z",
          trial_end: "2026-09-21T14:13:20.000Z",
          paused: "keep_as_draft",
          livemode: true,
        },
        ...(event.type === "customer.subscription.created"
          ? { kind: "creation", account_id: "acc_1" }
          : { kind: "update", previous: null }),
      });
    }
  }
});

Deno.test("compare() takes a record as it was created for no difference, though it is active", () => {
  const trialing = shown({ status: "trialing" });
  const created = {
    ...RECORD,
    provider_status: "trialing",
    changed_by_update: false,
  };
  assertEquals(compare(trialing, { ...OPTIONS, record: created }), SAME);
  // An update was missed.
  assertEquals(
    fields(shown(), created).map(({ field }) => field),
    ["provider_status"],
  );
  assertEquals(
    fields(shown({ status: "past_due" }), created).map(({ field }) => field),
    ["status", "provider_status"],
  );
  assertEquals(
    fields(trialing, { ...created, changed_by_update: true })
      .map(({ field }) => field),
    ["status"],
  );
});

Deno.test("compare() finds values that a record lacks, of canceled subscriptions too", () => {
  const bare = {
    ...RECORD,
    provider_status: null,
    customer_id: null,
    quantity: null,
    livemode: null,
  };
  const names = ["provider_status", "customer_id", "quantity", "livemode"];
  assertEquals(fields(shown(), bare).map(({ field }) => field), names);
  assertEquals(types(shown(), bare), ["updated"]);
  const canceled = { ...bare, status: "canceled", canceled_at: "2026-01-01" };
  assertEquals(
    fields(shown({ status: "canceled" }), canceled).map(({ field }) => field),
    // A deletion does not report the status.
    names.filter((name) => name !== "provider_status"),
  );
});

Deno.test("compare() corrects with only the events that the change needs", () => {
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

Deno.test("compare() finds a record frozen if a mark is over five minutes ahead, and resets the mark", () => {
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
    const found = fields(shown({ status }), record);
    assertEquals(found, [{ field: mark, ...field }]);
    assert(isFrozen(found));
    assertEquals(types(shown({ status }), record), [...expected]);
  }
  const record = { ...RECORD, status: "past_due" };
  assert(!isFrozen(fields(shown(), record)));
});

Deno.test("compare() dates corrections between two seconds, before Stripe was asked", () => {
  for (
    const { occurred_at } of corrections(
      shown({ status: "canceled" }),
      undefined,
    )
  ) {
    assertEquals(occurred_at, "2026-11-21T09:59:54.500Z");
  }
});

Deno.test("compare() gives the same correction the same event ID, and another correction another", () => {
  const ids = (subscription: Stripe.Subscription, askedAtSeconds: number) => {
    const options = { ...OPTIONS, askedAtSeconds, record: undefined };
    return compare(subscription, options).corrections.map(({ event_id }) =>
      event_id
    );
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

Deno.test("compare() finds no account for a subscription without one, unless it is recorded", () => {
  const nobodys = shown({ metadata: {}, customer: "cus_1" });
  assertEquals(compare(nobodys, { ...OPTIONS, record: undefined }), {
    subscription: "sub_1",
    difference: {
      kind: "unmapped",
      subscription: "sub_1",
      customer: "cus_1",
    },
    corrections: [],
  });
  const record = { ...RECORD, customer_id: "cus_1" };
  assertEquals(compare(nobodys, { ...OPTIONS, record }), SAME);
  const { difference } = compare(nobodys, {
    ...OPTIONS,
    record: undefined,
    accountFrom: "customer",
  });
  assertEquals(difference, {
    kind: "missing_here",
    subscription: "sub_1",
    account: "cus_1",
  });
});

Deno.test("compare() asks for the customer's account last, and leaves it to the database", () => {
  const nobodys = shown({ metadata: {}, customer: "cus_1" });
  const options = { ...OPTIONS, record: undefined, customersAccount: "acc_c" };
  const { difference, corrections } = compare(nobodys, options);
  assertEquals(difference, {
    kind: "missing_here",
    subscription: "sub_1",
    account: "acc_c",
  });
  const [creation] = corrections;
  assert(creation?.type === "customer.subscription.created");
  assertEquals(creation.account_id, null);

  function accountWith(changes: Partial<typeof OPTIONS>, subscription: object) {
    const { difference } = compare(
      subscription as Stripe.Subscription,
      {
        ...options,
        ...changes,
      } as typeof options,
    );
    return difference?.kind === "missing_here" && difference.account;
  }
  assertEquals(accountWith({}, shown()), "acc_1");
  assertEquals(
    accountWith({ accountFrom: "customer" as never }, nobodys),
    "cus_1",
  );
});

Deno.test("compare() changes nothing if the subscription lacks a field that is needed", () => {
  for (const record of [undefined, RECORD]) {
    const odd = shown({ items: { data: [] } });
    const { difference, corrections } = compare(odd, { ...OPTIONS, record });
    assertEquals([difference?.kind, corrections], ["unreadable", []]);
  }
});
