import { assertEquals } from "@std/assert";
import type { Difference } from "../../../scripts/stripe_sync/difference.ts";
import { summary } from "../../../scripts/stripe_sync/summary.ts";

const DIFFERENCES: readonly Difference[] = [
  { kind: "missing_there", subscription: "sub_1" },
  { kind: "unmapped", subscription: "sub_2", customer: "cus_1" },
  { kind: "missing_there", subscription: "sub_3" },
];

const COUNTS = [
  "| Difference | Count |",
  "| --- | --- |",
  "| `missing_there` | 2 |",
  "| `unmapped` | 1 |",
  "",
];
const ADVICE = "What each kind means, and how to fix it: docs/reconcile.md.";

Deno.test("summary() counts and lists for a private repository", () => {
  assertEquals(summary(DIFFERENCES, { visibility: "private" }), [
    ...COUNTS,
    "    missing there  sub_1",
    "    no account     sub_2, customer cus_1",
    "    missing there  sub_3",
    "",
    ADVICE,
  ]);
});

Deno.test("summary() only counts for any other repository", () => {
  for (const visibility of ["public", "internal", "", undefined]) {
    assertEquals(summary(DIFFERENCES, { visibility }), [...COUNTS, ADVICE]);
  }
});
