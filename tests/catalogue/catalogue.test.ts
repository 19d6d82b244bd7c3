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

const stage = await openStage();
Deno.test.afterAll(async () => await stage[Symbol.asyncDispose]());

/** Under way since the start, beside the others: it takes ten seconds. */
const SLOW = 26;
const rows = [
  ...ROWS_01_TO_20,
  ...ROWS_21_TO_27,
  ...ROWS_28_TO_38,
  ...ROWS_39_TO_48,
];
rows.sort((a, b) => Number(a.row === SLOW) - Number(b.row === SLOW));

for (const { row, input, check } of rows) {
  Deno.test(`catalogue ${row}: ${input}`, () => check(stage));
}

Deno.test("after all rows, no log holds a secret, a signature, a payload or a trace", () => {
  for (const { receiver } of endpoints(stage)) {
    const output = receiver.output();
    assert(output.split("delivery failed").length > 50, "It has no log");
    assertDiscreet(output);
  }
});
