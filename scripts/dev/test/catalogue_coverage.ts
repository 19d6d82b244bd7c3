import type { StepResult } from "./run_step.ts";

/** Rows of the catalogue of hostile and broken input. */
const ROWS = 74;

/**
 * Prints which row of the catalogue has which passing test. It is one check,
 * which fails where a row has none.
 *
 * @param names Of the tests that passed; those of the catalogue begin with
 * `catalogue` and the row's number.
 */
export function reportCatalogue(names: readonly string[]): StepResult {
  console.log("\n== catalogue of bad input: row, passing tests");
  const missing: number[] = [];
  for (let row = 1; row <= ROWS; row++) {
    const tests = [...new Set(testsOf(row, names))];
    if (tests.length === 0) missing.push(row);
    console.log(`${`${row}`.padStart(4)}  ${tests.join(" | ") || "NONE"}`);
  }
  console.log(
    `== catalogue of bad input: ${ROWS - missing.length} of ${ROWS} rows` +
      (missing.length > 0 ? `; FAILED, without a test: ${missing}` : ""),
  );
  const passed = missing.length === 0;
  return { passed: +passed, failed: +!passed, passedTests: [] };
}

function testsOf(row: number, names: readonly string[]): string[] {
  return names.filter((name) => name.startsWith(`catalogue ${row}: `));
}
