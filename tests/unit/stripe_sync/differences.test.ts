import { assertEquals } from "@std/assert";
import {
  type Difference,
  differenceLines,
  summary,
} from "../../../scripts/stripe_sync/differences.ts";

const MISSING: Difference = {
  kind: "missing_here",
  subscription: "sub_1",
  account: "acc_1",
};
const UNDELIVERED: Difference = {
  kind: "undelivered",
  event: "evt_1",
  type: "invoice.payment_failed",
  subscription: null,
};
const FIELDS: Difference = {
  kind: "differs",
  subscription: "sub_3",
  fields: [
    { field: "quantity", here: 3, there: 5 },
    { field: "paused", here: null, there: "void" },
    { field: "livemode", here: false, there: true },
  ],
};
const THERE: Difference = { kind: "missing_there", subscription: "sub_2" };
const ADVICE =
  "missing there: --apply deletes nothing. Check that STRIPE_API_KEY belongs to the right account, and see docs/reconcile.md.";

Deno.test("differenceLines() shows each difference, and what to do once per kind", () => {
  for (
    const [differences, apply, lines] of [
      [[], false, ["No differences."]],
      [[UNDELIVERED], false, [
        "undelivered    evt_1, invoice.payment_failed, subscription unknown",
        "1 difference. --apply fixes what it can, and deletes nothing.",
      ]],
      [[MISSING], true, [
        "missing here   sub_1, account acc_1",
        "1 difference.",
      ]],
      [[FIELDS], true, [
        "differs        sub_3: quantity is 3 here, 5 at Stripe; paused is null here, void at Stripe; livemode is false here, true at Stripe",
        "1 difference.",
      ]],
      [[THERE, THERE], false, [
        "missing there  sub_2",
        "missing there  sub_2",
        "2 differences.",
        ADVICE,
      ]],
    ] as const
  ) assertEquals(differenceLines(differences, { apply }), [...lines]);
});

Deno.test("summary() counts, and lists for a private repository only", () => {
  const differences: Difference[] = [
    THERE,
    { kind: "unmapped", subscription: "sub_2", customer: "cus_1" },
    ...Array(20).fill(THERE),
  ];
  const counts = [
    "| Difference | Count |",
    "| --- | --- |",
    "| `missing_there` | 21 |",
    "| `unmapped` | 1 |",
    "",
  ];
  const advice = "What each kind means, and how to fix it: docs/reconcile.md.";
  assertEquals(summary(differences, { visibility: "private" }), [
    ...counts,
    "    missing there  sub_2",
    "    no account     sub_2, customer cus_1",
    ...Array(18).fill("    missing there  sub_2"),
    "",
    "And 2 more.",
    "",
    advice,
  ]);
  for (const visibility of ["public", "internal", "", undefined]) {
    assertEquals(summary(differences, { visibility }), [...counts, advice]);
  }
});
