import { assertEquals } from "@std/assert";
import fc from "fast-check";
import {
  livemode,
  providerReport,
  replacedReport,
} from "../../../supabase/functions/_shared/billing/provider_report.ts";

const PERIOD_END = 1_796_212_800;
const OTHER_TIME = 1_800_000_000;

const SUBSCRIPTION = {
  id: "sub_1",
  status: "active",
  customer: "cus_1",
  items: { data: [{ quantity: 5 }, { quantity: 7 }] },
  current_period_end: PERIOD_END,
  cancel_at: null,
  cancel_at_period_end: false,
  trial_end: null,
  pause_collection: null,
};
const REPORT = {
  provider_status: "active",
  customer_id: "cus_1",
  quantity: 5,
  cancel_at: null,
  trial_end: null,
  paused: null,
};
const NOTHING = {
  ...REPORT,
  provider_status: null,
  customer_id: null,
  quantity: null,
};

Deno.test("providerReport() reads each field", () => {
  const cases: [changes: object, expected: object][] = [
    [{}, {}],
    [{ status: "incomplete" }, { provider_status: "incomplete" }],
    [{ customer: { id: "cus_2", email: "x@example.com" } }, {
      customer_id: "cus_2",
    }],
    [{ items: { data: [{ quantity: 0 }] } }, { quantity: 0 }],
    [{ items: { data: [{ quantity: 2_147_483_647 }] } }, {
      quantity: 2_147_483_647,
    }],
    [{ cancel_at: OTHER_TIME }, { cancel_at: OTHER_TIME }],
    [{ cancel_at_period_end: true }, { cancel_at: PERIOD_END }],
    [{ cancel_at: OTHER_TIME, cancel_at_period_end: true }, {
      cancel_at: OTHER_TIME,
    }],
    [
      {
        cancel_at_period_end: true,
        current_period_end: undefined,
        items: { data: [{ quantity: 5, current_period_end: OTHER_TIME }] },
      },
      { cancel_at: OTHER_TIME },
    ],
    [{ trial_end: OTHER_TIME }, { trial_end: OTHER_TIME }],
    [{ pause_collection: { behavior: "void", resumes_at: null } }, {
      paused: "void",
    }],
  ];
  for (const [changes, expected] of cases) {
    assertEquals(
      providerReport({ ...SUBSCRIPTION, ...changes }),
      { ...REPORT, ...expected },
      JSON.stringify(changes),
    );
  }
});

const NO_TEXT = [
  1,
  true,
  "",
  " ",
  "a\0b",
  "a\nb",
  "\ud800",
  "x".repeat(256),
  [],
];
const NO_TIME = ["1796212800", 0, -1, 1.5, 1_796_212_800_000, 1e400, true, {}];
const NO_QUANTITY = [-1, 1.5, 2_147_483_648, 1e400, "5", true, {}, [5]];

/** Each field with values that no provider should send; they all read as null. */
const ODD: [field: keyof typeof REPORT, changes: object[]][] = [
  ["provider_status", [...NO_TEXT, {}].map((status) => ({ status }))],
  ["customer_id", [
    ...NO_TEXT.map((customer) => ({ customer })),
    ...[undefined, null, ...NO_TEXT, {}].map((id) => ({ customer: { id } })),
  ]],
  ["quantity", [
    ...[undefined, null, ...NO_QUANTITY].map((quantity) => ({
      items: { data: [{ quantity }] },
    })),
    ...[undefined, null, [], {}, "x", { data: [] }, { data: [null] }, {
      data: { 0: { quantity: 5 } },
    }].map((items) => ({ items })),
  ]],
  ["cancel_at", [
    ...NO_TIME.map((cancel_at) => ({ cancel_at })),
    ...["true", 1, {}, null].map((value) => ({ cancel_at_period_end: value })),
    ...NO_TIME.map((value) => ({
      cancel_at_period_end: true,
      current_period_end: value,
    })),
  ]],
  ["trial_end", NO_TIME.map((trial_end) => ({ trial_end }))],
  ["paused", [
    ...[...NO_TEXT, {}].map((behavior) => ({ pause_collection: { behavior } })),
    ...[undefined, true, "void", [], ["void"], { resumes_at: 1 }].map(
      (pause_collection) => ({ pause_collection }),
    ),
  ]],
];

for (const [field, cases] of ODD) {
  Deno.test(`providerReport() reads an odd ${field} as null, and the others as they are`, () => {
    for (const changes of cases) {
      assertEquals(
        providerReport({ ...SUBSCRIPTION, ...changes }),
        { ...REPORT, [field]: null },
        JSON.stringify(changes),
      );
    }
  });
}

Deno.test("providerReport() reads nothing that is inherited, and nothing out of what is no subscription", () => {
  const inherited = Object.create(SUBSCRIPTION);
  for (const value of [undefined, null, 1, "x", [], {}, inherited]) {
    assertEquals(providerReport(value), NOTHING);
  }
});

Deno.test("replacedReport() tells what differed before the update", () => {
  const paused = { behavior: "void", resumes_at: OTHER_TIME };
  const whole = (item: object) => ({ items: { data: [item] } });
  const cases: [after: object, attributes: object, expected: object][] = [
    [{}, {}, {}],
    [{}, { latest_invoice: "in_1", default_payment_method: null }, {}],
    [{ status: "past_due" }, { status: "active" }, {
      provider_status: "active",
    }],
    // Null counts, in either direction.
    [{ trial_end: OTHER_TIME }, { trial_end: null }, { trial_end: null }],
    [{}, { trial_end: OTHER_TIME }, { trial_end: OTHER_TIME }],
    [{ pause_collection: paused }, { pause_collection: null }, {
      paused: null,
    }],
    [{}, { pause_collection: paused }, { paused: "void" }],
    // Only the members that changed are in it.
    [{ pause_collection: paused }, {
      pause_collection: { behavior: "keep_as_draft" },
    }, { paused: "keep_as_draft" }],
    [{ pause_collection: paused }, { pause_collection: { resumes_at: 1 } }, {}],
    // The old items are whole.
    [whole({ quantity: 5 }), whole({ quantity: 3 }), { quantity: 3 }],
    [whole({ quantity: 5 }), whole({ quantity: 5 }), {}],
    [whole({}), whole({ quantity: 3 }), { quantity: 3 }],
    [whole({ quantity: 5 }), whole({}), { quantity: null }],
    // The end that follows from the period.
    [{ cancel_at_period_end: true }, { cancel_at_period_end: false }, {
      cancel_at: null,
    }],
    [{}, { cancel_at_period_end: true }, { cancel_at: PERIOD_END }],
    [
      { cancel_at_period_end: true },
      { current_period_end: OTHER_TIME },
      { cancel_at: OTHER_TIME },
    ],
    [{}, { current_period_end: OTHER_TIME }, {}],
    [
      { cancel_at_period_end: true, cancel_at: PERIOD_END },
      { cancel_at_period_end: false, cancel_at: null },
      { cancel_at: null },
    ],
    [
      { cancel_at_period_end: true, cancel_at: PERIOD_END },
      { cancel_at: null },
      {},
    ],
    [{}, { customer: "cus_0" }, { customer_id: "cus_0" }],
  ];
  for (const [after, attributes, expected] of cases) {
    assertEquals<unknown>(
      replacedReport({ ...SUBSCRIPTION, ...after }, attributes),
      expected,
      JSON.stringify([after, attributes]),
    );
  }
});

Deno.test("replacedReport() reads odd values as before, and throws nothing", () => {
  fc.assert(fc.property(
    fc.record(
      Object.fromEntries(
        [...Object.keys(SUBSCRIPTION), "__proto__"].map((name) => [
          name,
          fc.jsonValue(),
        ]),
      ),
      { requiredKeys: [] },
    ),
    (attributes) => {
      const own = JSON.parse(JSON.stringify(attributes));
      const replaced = replacedReport(SUBSCRIPTION, own);
      for (const [name, value] of Object.entries(replaced)) {
        assertEquals(
          value,
          providerReport({ ...SUBSCRIPTION, ...own })[
            name as keyof typeof REPORT
          ],
        );
      }
    },
  ));
});

Deno.test("livemode() takes the event's word, or else the object's, or else none", () => {
  for (const own of [true, false]) {
    assertEquals(livemode({ livemode: own }, { livemode: !own }), own);
    for (const odd of [undefined, null, "true", 1, 0, {}]) {
      assertEquals(livemode({ livemode: odd }, { livemode: own }), own);
      assertEquals(livemode({ livemode: odd }, { livemode: odd }), null);
    }
  }
});
