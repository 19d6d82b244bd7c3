import { assert, assertEquals } from "@std/assert";
import type Stripe from "stripe";
import { compare } from "../../../scripts/stripe_sync/compare.ts";
import {
  type Difference,
  differenceLines,
  summary,
} from "../../../scripts/stripe_sync/differences.ts";
import type { SubscriptionRecord } from "../../../scripts/stripe_sync/tables.ts";
import { subscriptionEvent } from "../../../scripts/events/subscription_event.ts";
import { API_VERSIONS } from "../../../scripts/events/templates.ts";

const ASKED_AT = Date.parse("2026-11-21T10:00:00Z") / 1000;
const PERIOD_END = "2027-01-15T08:00:00.000Z";
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
  past_due_since: null,
  account_as_of: "2026-11-01T10:00:00+00:00",
  changed_as_of: "2026-11-21T10:05:00+00:00",
  changed_by_update: true,
  canceled_as_of: null,
};
/** A deletion sets the status, and provider_status stays. */
const CANCELED = { status: "canceled", canceled_at: "2026-01-01" };
const CREATED = { provider_status: "trialing", changed_by_update: false };
const AHEAD = "2026-11-21T10:05:01+00:00";
const TOO_LATE = "2026-11-21T10:05:01.000Z, at most 2026-11-21T10:05:00.000Z";

/** Compares a subscription with a record that has these values, or with none. */
function compared(
  changes: object,
  record: Partial<SubscriptionRecord> | undefined,
  { apiVersion = API_VERSIONS[0]!, customersAccount, ...options } = {} as {
    apiVersion?: typeof API_VERSIONS[number];
    accountFrom?: string;
    customersAccount?: string;
    askedAtSeconds?: number;
  },
) {
  const { data: { object } } = subscriptionEvent(
    "customer.subscription.updated",
    {
      ...{ subscription: "sub_1", account: "acc_1", plan: "price_1" },
      ...{ periodEnd: 1_800_000_000, status: "active", apiVersion },
    },
  );
  return compare({ ...object, ...changes } as unknown as Stripe.Subscription, {
    provider: "a",
    accountFrom: undefined,
    tables: { accountOfCustomer: () => Promise.resolve(customersAccount) },
    askedAtSeconds: ASKED_AT,
    record: record && { ...RECORD, ...record },
    ...options,
  });
}

type Case = [
  at: object,
  here: Partial<SubscriptionRecord> | undefined,
  differences: string[],
  corrections?: string,
];

const ENDED = { status: "canceled" };
const ENDS = "status: active, canceled";
const CREATES = "created,updated";
const DELETES = "updated,deleted";
const ITEM = { price: { id: "price_1" }, current_period_end: 1_800_000_000 };

const CASES: Case[] = [
  [{}, {}, [], ""],
  [ENDED, CANCELED, [], ""],
  // Nobody knows what an update reported last.
  [ENDED, { ...CANCELED, provider_status: null }, [], ""],
  // It came back: the time of the cancellation is the receiver's own.
  [{}, { canceled_at: "2026-01-01" }, [], ""],
  // A record as its creation left it is active.
  [{ status: "trialing" }, CREATED, [], ""],
  [{}, CREATED, ["provider_status: trialing, active"]],
  [{ status: "past_due" }, CREATED, [
    "status: active, past_due",
    "provider_status: trialing, past_due",
  ]],
  [{ status: "trialing" }, { ...CREATED, changed_by_update: true }, [
    "status: active, trialing",
  ]],
  [{}, { provider: "b", plan_id: "price_2" }, [
    "provider: b, a",
    "plan_id: price_2, price_1",
  ]],
  [{}, { current_period_end: "2027-01-15T09:00:00+00:00" }, [
    `current_period_end: 2027-01-15T09:00:00.000Z, ${PERIOD_END}`,
  ]],
  [{}, { account_id: "acc_2" }, ["account_id: acc_2, acc_1"], CREATES],
  [ENDED, {}, [ENDS, "canceled_at: null, set"], DELETES],
  [ENDED, { canceled_at: "2026-01-01" }, [ENDS]],
  // A column that no event has filled yet, and one that Stripe left out.
  [{ customer: { id: "cus_2" } }, { quantity: null, livemode: null }, [
    "customer_id: cus_1, cus_2",
    "quantity: null, 1",
    "livemode: null, false",
  ]],
  [{ items: { data: [ITEM] } }, {}, ["quantity: 1, null"]],
  [{ trial_end: 1_800_000_000 }, { trial_end: "2027-01-15T08:00:00Z" }, [], ""],
  // Text of the form of a time, but none.
  [{}, { plan_id: "2027-99-15T08:00:00Z" }, [
    "plan_id: 2027-99-15T08:00:00Z, price_1",
  ]],
  // Over five minutes ahead, the mark freezes the record and is set anew.
  [{}, { account_as_of: AHEAD }, [`account_as_of: ${TOO_LATE}`], CREATES],
  [{}, { changed_as_of: AHEAD }, [`changed_as_of: ${TOO_LATE}`]],
  [{}, { canceled_as_of: AHEAD }, [`canceled_as_of: ${TOO_LATE}`]],
  [ENDED, { ...CANCELED, canceled_as_of: AHEAD }, [
    `canceled_as_of: ${TOO_LATE}`,
  ], DELETES],
  [{ items: { data: [] } }, {}, ["unreadable"], ""],
  [{ items: { data: [] } }, undefined, ["unreadable"], ""],
  [{}, undefined, ["missing_here"], CREATES],
  [ENDED, undefined, ["missing_here"], "created,updated,deleted"],
];

Deno.test("compare() names what differs, and corrects with what the change needs, in any API version", async () => {
  for (const apiVersion of API_VERSIONS) {
    for (const [changes, here, differences, types = "updated"] of CASES) {
      const { difference, corrections } = await compared(changes, here, {
        apiVersion,
      });
      const fields = difference?.fields?.map(({ field, here, there }) =>
        `${field}: ${here}, ${there}`
      ) ?? (difference ? [difference.kind] : []);
      assertEquals<unknown>(fields, differences);
      assertEquals(
        corrections.map(({ type }) =>
          type.split(".").pop()
        ).join(),
        types,
      );
    }
  }
});

Deno.test("compare() dates corrections between two seconds, before Stripe was asked; the same one has the same ID", async () => {
  const corrected = async (changes = {}, askedAtSeconds = ASKED_AT) =>
    (await compared(changes, undefined, { askedAtSeconds })).corrections;
  for (const { occurred_at, provider, report } of await corrected()) {
    assertEquals(occurred_at, "2026-11-21T09:59:54.500Z");
    assertEquals([provider, report.plan_id], ["a", "price_1"]);
  }
  const ids = (await Promise.all([
    ...[corrected(), corrected()],
    ...[corrected({ status: "paused" }), corrected({}, ASKED_AT + 1)],
  ])).flat().map(({ event_id }) => event_id);
  assertEquals(new Set(ids).size, 6);
  assert(ids.every((id) => /^import_[0-9a-f]{64}$/.test(id)));
});

Deno.test("compare() takes metadata.accountId, the record's account, the other source, and the customer's last", async () => {
  const customersAccount = "acc_c";
  for (
    const [metadata, accountFrom, account, sent = account] of [
      [{ accountId: "acc_1", team: "team_1" }, "customer", "acc_1"],
      [{ accountId: "acc_1", team: "team_1" }, "team", "acc_1"],
      [{ accountId: " ", team: "team_1" }, "team", "team_1"],
      [{ team: "team_1" }, "customer", "cus_1"],
      // The database decides by itself.
      [{ accountId: " ", team: "team_1" }, undefined, "acc_c", null],
      [{ team: "" }, "team", "acc_c", null],
      // Keys of the metadata only.
      [{}, "constructor", "acc_c", null],
    ] as const
  ) {
    const changes = { metadata, customer: "cus_1" };
    const options = { customersAccount, ...(accountFrom && { accountFrom }) };
    const made = await compared(changes, undefined, options);
    assertEquals(made.difference?.account, account);
    assertEquals(made.corrections[0]?.account_id, sent);
    const here = metadata.accountId?.trim() ? {} : { account_id: "acc_9" };
    const { difference } = await compared(changes, here, options);
    assertEquals(difference, undefined);
  }
  const nobodys = { metadata: {}, customer: "cus_1" };
  const { difference } = await compared(nobodys, undefined);
  assertEquals<unknown>(difference, {
    kind: "unmapped",
    subscription: "sub_1",
    customer: "cus_1",
  });
});

// tests/stripe_sync has a line of each kind, and what it counts.
Deno.test("summary() lists twenty differences, differenceLines() one advice per kind", () => {
  const there: Difference = { kind: "missing_there", subscription: "sub_2" };
  assertEquals(differenceLines([there, there], { apply: true }).length, 4);
  const many = Array<Difference>(22).fill(there);
  const shown = summary(many, { visibility: "private" });
  assertEquals(shown.filter((line) => line.startsWith("    ")).length, 20);
  assert(shown.includes("| `missing_there` | 22 |"));
  assert(shown.includes("And 2 more."));
  assert(!summary(many, { visibility: undefined }).join().includes("sub_2"));
});
