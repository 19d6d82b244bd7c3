import { assertEquals } from "@std/assert";
import { z } from "zod";
import {
  currentPeriodEnd,
  invoiceSubscription,
} from "../../../supabase/functions/_shared/billing/moved_fields.ts";

/** What a reader gives, and the paths of the faults that it reports. */
function read<T>(
  reader: (context: z.RefinementCtx) => T,
): { value: T; paths: string[] } {
  let value: T;
  const result = z.unknown().transform((_, context) => {
    value = reader(context);
  }).safeParse(null);
  const paths = result.error?.issues.map(({ path }) => path.join(".")) ?? [];
  return { value: value!, paths };
}

function periodEnd(own: unknown, inItem?: unknown) {
  return read((context) =>
    currentPeriodEnd({
      current_period_end: own,
      items: { data: [{ current_period_end: inItem }, { rubbish: true }] },
    }, context)
  );
}

function ofInvoice(object: { subscription?: unknown; parent?: unknown }) {
  return read((context) => invoiceSubscription(object, context));
}

const OWN = "data.object.current_period_end";
const IN_ITEM = "data.object.items.data.0.current_period_end";
const DIRECT = "data.object.subscription";
const BELOW = "data.object.parent.subscription_details.subscription";

Deno.test("currentPeriodEnd() reads where the specification puts it", () => {
  const expected = { value: 1_793_624_405, paths: [] };
  assertEquals(periodEnd(1_793_624_405), expected);
  assertEquals(periodEnd(1_793_624_405, 1_893_624_405), expected);
  assertEquals(periodEnd(1_793_624_405, "rubbish"), expected);
});

Deno.test("currentPeriodEnd() falls back on the first item", () => {
  for (const absent of [undefined, null]) {
    assertEquals(periodEnd(absent, 1_793_624_405), {
      value: 1_793_624_405,
      paths: [],
    });
  }
});

Deno.test("currentPeriodEnd() names the place that it read", () => {
  for (const rubbish of ["1793624405", 1.5, 1e12, -1, {}, [], true, ""]) {
    assertEquals(periodEnd(rubbish, 1_793_624_405).paths, [OWN]);
    assertEquals(periodEnd(undefined, rubbish).paths, [IN_ITEM]);
  }
  for (const absent of [undefined, null]) {
    assertEquals(periodEnd(absent, absent), { value: NaN, paths: [OWN] });
  }
});

Deno.test("invoiceSubscription() reads where the specification puts it", () => {
  const expected = { value: "sub_1", paths: [] };
  const parent = { subscription_details: { subscription: "sub_2" } };
  assertEquals(ofInvoice({ subscription: "sub_1" }), expected);
  assertEquals(ofInvoice({ subscription: "sub_1", parent }), expected);
  assertEquals(ofInvoice({ subscription: "sub_1", parent: 1 }), expected);
});

Deno.test("invoiceSubscription() falls back on the parent's details", () => {
  const parent = { subscription_details: { subscription: "sub_1" } };
  for (const subscription of [undefined, null]) {
    assertEquals(ofInvoice({ subscription, parent }), {
      value: "sub_1",
      paths: [],
    });
  }
});

Deno.test("invoiceSubscription() takes an expanded object for its id", () => {
  const subscription = { id: "sub_1", object: "subscription" };
  const expected = { value: "sub_1", paths: [] };
  assertEquals(ofInvoice({ subscription }), expected);
  assertEquals(
    ofInvoice({ parent: { subscription_details: { subscription } } }),
    expected,
  );
});

Deno.test("invoiceSubscription() finds none for a one-off invoice", () => {
  const invoices = [
    {},
    { subscription: null },
    { subscription: null, parent: null },
    { parent: { type: "quote_details", subscription_details: null } },
    { parent: { subscription_details: {} } },
    { parent: { subscription_details: { subscription: null } } },
  ];
  for (const invoice of invoices) {
    assertEquals(ofInvoice(invoice), { value: null, paths: [] });
  }
});

Deno.test("invoiceSubscription() takes nothing from an object's prototype", () => {
  for (const subscription of [{}, [], { ID: "sub_1" }]) {
    assertEquals(ofInvoice({ subscription }).paths, [`${DIRECT}.id`]);
  }
  const inherited = Object.create({ id: "sub_1" });
  assertEquals(ofInvoice({ subscription: inherited }).paths, [
    `${DIRECT}.id`,
  ]);
});

Deno.test("invoiceSubscription() names the place that it read", () => {
  for (const rubbish of ["", " ", 1, true, [], {}, { id: 1 }, "a\nb"]) {
    const end = typeof rubbish === "object" ? ".id" : "";
    assertEquals(
      new Set(ofInvoice({ subscription: rubbish }).paths),
      new Set([DIRECT + end]),
    );
    const parent = { subscription_details: { subscription: rubbish } };
    assertEquals(new Set(ofInvoice({ parent }).paths), new Set([BELOW + end]));
  }
});
