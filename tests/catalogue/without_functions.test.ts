/**
 * The rows of the catalogue of hostile and broken input in which no served
 * function has a part.
 *
 * @module
 */
import { connect } from "../support/tables.ts";
import { ROWS_71_72 } from "./rows_71_72.ts";

const sql = connect();
Deno.test.afterAll(() => sql.end());

for (const { row, input, check } of ROWS_71_72) {
  Deno.test(`catalogue ${row}: ${input}`, () => check({ sql }));
}
