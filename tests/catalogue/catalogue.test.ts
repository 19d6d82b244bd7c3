/**
 * Hostile and broken input: every row of the catalogue over real HTTP, each
 * test named by the row's number. The gate prints which row has which test.
 *
 * @module
 */
import { openStage } from "./stage.ts";
import { ROWS_01_TO_20 } from "./rows_01_to_20.ts";

const stage = await openStage();
Deno.test.afterAll(async () => await stage[Symbol.asyncDispose]());

for (const { row, input, check } of [...ROWS_01_TO_20]) {
  Deno.test(`catalogue ${row}: ${input}`, () => check(stage));
}
