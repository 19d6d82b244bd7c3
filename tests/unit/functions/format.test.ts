import { assertEquals } from "@std/assert";
import {
  describeEvent,
  lacksAccountId,
} from "../../../supabase/functions/_shared/billing/events/format.ts";
import { stripe } from "../../../supabase/functions/_shared/billing/events/stripe.ts";
import {
  ABSENT,
  check,
  CREATED,
  FAILED,
  iso,
  NO_ID,
  NO_TIME,
  NOW,
  stripeEvent as event,
} from "./fixtures.ts";

const WHOLE = {
  type: CREATED,
  kind: "creation",
  subscription_id: "sub_1",
  customer_id: "cus_1",
  account_id: "acc_1",
  occurred_at: iso(NOW),
  fallback_account: undefined,
};
const without = (names: string[]) =>
  Object.fromEntries(names.map((name) => [name, undefined]));
const NO_USABLE_ID = [...NO_ID, ...ABSENT];
const PARTS: [path: string, values: unknown[], ...lost: string[]][] = [
  ["data.object.items", NO_USABLE_ID],
  ["data.object.id", NO_USABLE_ID, "subscription_id"],
  ["data.object.customer", NO_USABLE_ID, "customer_id"],
  [
    "data.object.metadata.accountId",
    NO_USABLE_ID.filter((value) => value !== 1),
    "account_id",
  ],
  ["type", NO_USABLE_ID, "type", "kind", "subscription_id"],
  ["created", [...NO_TIME, ...ABSENT], "occurred_at"],
];
Deno.test("describeEvent() reads each part by itself", () => {
  const describe = (given: unknown) => describeEvent(given, stripe);
  for (const [path, values, ...lost] of PARTS) {
    const read = (value: unknown) =>
      describe(event(CREATED, { [path]: value }));
    check(read, WHOLE, values.map((value) => [value, without(lost)]));
  }

  const ids = { customer: "cus_1", subscription: "sub_1" };
  check<unknown>(describe, without(Object.keys(WHOLE)), [
    [undefined, {}],
    [null, {}],
    [1, {}],
    [[], {}],
    [{ data: 1 }, {}],
    [{ type: "invoice.paid", data: { object: { id: "in_1" } } }, {
      type: "invoice.paid",
    }],
    [{ data: { object: ids } }, {
      customer_id: "cus_1",
      subscription_id: "sub_1",
    }],
  ]);
});

const OWNED = { metadata: { accountId: "acc_1" } };
const PLACES = {
  "data.object.metadata": OWNED.metadata,
  "data.object.subscription": OWNED,
  "data.object.subscription_details": OWNED,
  "data.object.parent": { subscription_details: OWNED },
  "data.object.lines": { data: [{}, OWNED] },
};
/** What is malformed is not missing. */
const METADATA: [lacks: boolean, ...unknown[]][] = [
  [true, undefined, null, {}, { accountid: "x" }],
  [true, { accountId: null }, { accountId: "" }, { accountId: "  " }],
  [false, [], "acc_1", 7, { accountId: 7 }, { accountId: "a\nb" }],
  [false, { accountId: "x".repeat(256) }, { accountId: {} }],
  [false, { accountId: false }],
];
Deno.test("lacksAccountId() and describeEvent() find the account at any place", () => {
  for (const [path, value] of Object.entries(PLACES)) {
    const owned = event(FAILED, { [path]: value });
    assertEquals(describeEvent(owned, stripe).account_id, "acc_1", path);
    assertEquals(lacksAccountId(owned, stripe), false, path);
  }
  for (const [lacks, ...values] of METADATA) {
    for (const metadata of values) {
      const one = event(CREATED, { "data.object.metadata": metadata });
      const text = JSON.stringify(metadata);
      assertEquals(lacksAccountId(one, stripe), lacks, text);
    }
  }
  assertEquals(lacksAccountId(event(FAILED), stripe), true);
  for (const body of [null, 1, "x", [], {}, { data: null }, { data: {} }]) {
    assertEquals(lacksAccountId(body, stripe), false, JSON.stringify(body));
  }
});
