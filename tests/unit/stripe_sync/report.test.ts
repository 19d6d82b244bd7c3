import { assertEquals } from "@std/assert";
import type { Difference } from "../../../scripts/stripe_sync/difference.ts";
import {
  differenceLine,
  differenceLines,
} from "../../../scripts/stripe_sync/report.ts";

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
const MISSING_THERE: Difference = {
  kind: "missing_there",
  subscription: "sub_2",
};

Deno.test("differenceLines() recommends --apply only if it can fix something", () => {
  const dryRun = { apply: false };
  assertEquals(differenceLines([], dryRun), ["No differences."]);
  assertEquals(differenceLines([MISSING, UNDELIVERED], dryRun), [
    "missing here   sub_1, account acc_1",
    "undelivered    evt_1, invoice.payment_failed, subscription unknown",
    "2 differences. --apply fixes what it can, and deletes nothing.",
  ]);
  assertEquals(differenceLines([MISSING_THERE], dryRun).slice(0, 2), [
    "missing there  sub_2",
    "1 difference.",
  ]);
});

Deno.test("differenceLine() shows both values of each field that differs", () => {
  const difference: Difference = {
    kind: "differs",
    subscription: "sub_3",
    fields: [
      { field: "quantity", here: 3, there: 5 },
      { field: "paused", here: null, there: "void" },
      { field: "livemode", here: false, there: true },
    ],
  };
  assertEquals(
    differenceLine(difference),
    "differs        sub_3: quantity is 3 here, 5 at Stripe; paused is null here, void at Stripe; livemode is false here, true at Stripe",
  );
});

Deno.test("differenceLines() does not recommend --apply after --apply", () => {
  assertEquals(differenceLines([MISSING], { apply: true }), [
    "missing here   sub_1, account acc_1",
    "1 difference.",
  ]);
});

Deno.test("differenceLines() says once per kind what to do by hand", () => {
  const lines = differenceLines([MISSING_THERE, MISSING_THERE], {
    apply: false,
  });
  assertEquals(lines.length, 4);
  assertEquals(lines[3]?.startsWith("missing there: "), true);
});
