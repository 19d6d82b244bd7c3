/**
 * Hostile and broken input: every row of the catalogue over real HTTP, each
 * test named by the row's number. The gate prints which row has which test.
 *
 * @module
 */
import { assert } from "@std/assert";
import { assertDiscreet } from "./outcome.ts";
import { endpoints, openStage } from "./stage.ts";
import { ROWS_01_TO_20 } from "./rows_01_to_20.ts";
import { ROWS_21_TO_27 } from "./rows_21_to_27.ts";
import { ROWS_28_TO_38 } from "./rows_28_to_38.ts";
import { ROWS_39_TO_48 } from "./rows_39_to_48.ts";
import { ROWS_49_TO_56 } from "./rows_49_to_56.ts";
import { ROWS_57_TO_60 } from "./rows_57_to_60.ts";
import { ROWS_61_TO_63 } from "./rows_61_to_63.ts";
import { ROWS_72_TO_73 } from "./rows_72_to_73.ts";
import { ROW_64 } from "./row_64.ts";
import { ROWS_68_TO_74 } from "./rows_68_to_74.ts";
import { ROWS_65_TO_69 } from "./rows_65_to_69.ts";
import { ROW_71 } from "./rows_71.ts";

const stage = await openStage();
Deno.test.afterAll(async () => await stage[Symbol.asyncDispose]());

/** Under way since the start, beside the others: they take up to ten seconds. */
const SLOW = [26, 62, 68];
const rows = [
  ...ROWS_01_TO_20,
  ...ROWS_21_TO_27,
  ...ROWS_28_TO_38,
  ...ROWS_39_TO_48,
  ...ROWS_49_TO_56,
  ...ROWS_57_TO_60,
  ...ROWS_61_TO_63,
  ROW_64,
  ...ROWS_65_TO_69,
  ...ROWS_68_TO_74,
  ROW_71,
  ...ROWS_72_TO_73,
];
const inOrder = [
  ...rows.filter(({ row }) => !SLOW.includes(row)),
  ...rows.filter(({ row }) => SLOW.includes(row)),
];

for (const { row, input, check } of inOrder) {
  Deno.test(`catalogue ${row}: ${input}`, () => check(stage));
}

Deno.test("after all rows, no log holds a secret, a signature, a payload or a trace", () => {
  for (const { receiver } of [...endpoints(stage), stage.behindFaults]) {
    const output = receiver.output();
    assert(output.split("delivery failed").length > 20, "It has no log");
    assertDiscreet(output);
  }
});
