/**
 * Hostile and broken input: the rows of the catalogue over real HTTP, each test
 * named by the row's number. without_functions.test.ts has the rest.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { assertDiscreet } from "./outcome.ts";
import { endpoints, openStage } from "./stage.ts";
import { ROWS_01_TO_10 } from "./rows_01_to_10.ts";
import { ROWS_11_TO_20 } from "./rows_11_to_20.ts";
import { ROWS_21_TO_27 } from "./rows_21_to_27.ts";
import { ROWS_28_TO_38 } from "./rows_28_to_38.ts";
import { ROWS_39_TO_43 } from "./rows_39_to_43.ts";
import { ROWS_44_TO_48 } from "./rows_44_to_48.ts";
import { ROWS_49_TO_56 } from "./rows_49_to_56.ts";
import { ROWS_57_TO_60 } from "./rows_57_to_60.ts";
import { ROWS_61_TO_64 } from "./rows_61_to_64.ts";
import { ROWS_65_TO_69 } from "./rows_65_to_69.ts";
import { ROWS_70_73_74 } from "./rows_70_73_74.ts";
import { ROWS_71_72 } from "./rows_71_72.ts";
import { ROWS_75_TO_76 } from "./rows_75_to_76.ts";

const stage = await openStage();
Deno.test.afterAll(async () => await stage[Symbol.asyncDispose]());

/** The rows of the catalogue, numbered from 1. */
const ROWS = 76;
/** They have been under way since the start: they take up to ten seconds. */
const SLOW = [26, 62, 63, 68];
const passed = new Set<number>();
const rows = [
  ...ROWS_01_TO_10,
  ...ROWS_11_TO_20,
  ...ROWS_21_TO_27,
  ...ROWS_28_TO_38,
  ...ROWS_39_TO_43,
  ...ROWS_44_TO_48,
  ...ROWS_49_TO_56,
  ...ROWS_57_TO_60,
  ...ROWS_61_TO_64,
  ...ROWS_65_TO_69,
  ...ROWS_70_73_74,
  ...ROWS_75_TO_76,
];
const inOrder = [
  ...rows.filter(({ row }) => !SLOW.includes(row)),
  ...rows.filter(({ row }) => SLOW.includes(row)),
];

for (const { row, input, check } of inOrder) {
  Deno.test(`catalogue ${row}: ${input}`, async () => {
    await check(stage);
    passed.add(row);
  });
}

Deno.test("every row of the catalogue has a test", () => {
  console.log(`== catalogue of bad input: ${passed.size} of ${ROWS} rows here`);
  assertEquals(
    [...rows, ...ROWS_71_72].map(({ row }) => row).sort((a, b) => a - b),
    Array.from({ length: ROWS }, (_, i) => i + 1),
  );
});

Deno.test("after all rows, no log holds a secret, a signature, a payload or a trace", () => {
  for (const { receiver } of [...endpoints(stage), stage.behindFaults]) {
    const output = receiver.output();
    assert(output.split("delivery failed").length > 20, "It has no log");
    assertDiscreet(output);
  }
});
