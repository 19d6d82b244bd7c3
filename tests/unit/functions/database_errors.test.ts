import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import {
  databaseError,
  databaseErrorCode,
} from "../../../supabase/functions/_shared/billing/database_errors.ts";
import {
  ANSWERS,
  type ErrorCode,
} from "../../../supabase/functions/_shared/billing/errors.ts";

const CODES: Partial<Record<ErrorCode, string[]>> = {
  database_unavailable: [
    "08000", // connection_exception
    "08003",
    "08006",
    "08P01",
    "25006", // read_only_sql_transaction: Supabase, while the disk is full
    "40001", // serialization_failure
    "40P01", // deadlock_detected
    "53000", // insufficient_resources
    "53100", // disk_full
    "53200", // out_of_memory
    "53300", // too_many_connections
    "57014", // query_canceled, as by statement_timeout
    "57P01", // admin_shutdown
    "57P02",
    "57P03", // cannot_connect_now
    "58030", // io_error
    "PGRST000",
    "PGRST001",
    "PGRST002",
    "PGRST003", // timed out waiting for a connection of the pool
    "PGRST303", // the times in the token, which the platform makes for each call
  ],
  deployment_fault: [
    "42501", // insufficient_privilege
    "42883", // undefined_function
    "42P01", // undefined_table
    "42703", // undefined_column
    "PGRST106", // schema not exposed
    "PGRST125", // path that the API does not have: a wrong SUPABASE_URL
    "PGRST202", // function not in the schema cache
    "PGRST203",
    "PGRST204",
    "PGRST205", // table not in the schema cache
    "PGRST300", // key that the API refuses
    "PGRST301", // token that cannot be decoded; before 13, one that has expired
    "PGRST302",
    "BW003",
  ],
  subscription_unknown: ["BW001"],
  subscription_of_other_provider: ["BW002"],
  repair_pending: ["BW004"],
  creation_pending: ["BW006"],
  event_invalid: ["BW005"], // a creation without an account, of an unknown customer
  record_locked: ["55P03"], // lock_not_available
  apply_failed: [
    "22P05", // untranslatable_character
    "22003",
    "22007",
    "22023",
    "23502",
    "23505",
    "23514",
    "42601",
    "54000",
    "54001", // statement_too_complex
    "P0001",
    "P0002",
    "XX000",
    "BW000",
    "BW0011",
    "xBW001",
    "PGRST004",
    "PGRST100",
    "PGRST102", // body that is not JSON
    "PGRST116",
    "PGRST127",
    "PGRSTX00", // a fault of PostgREST's own
    "x42501",
    "425010",
    "5701",
    "570145",
  ],
};

for (const [expected, codes] of Object.entries(CODES)) {
  Deno.test(`databaseErrorCode() returns ${expected}`, () => {
    for (const code of codes) {
      assertEquals<string>(databaseErrorCode(code), expected, code);
    }
  });
}

Deno.test("databaseErrorCode() takes an answer without a code for a passing fault", () => {
  assertEquals(databaseErrorCode(undefined), "database_unavailable");
  assertEquals(databaseErrorCode(""), "database_unavailable");
});

Deno.test("databaseErrorCode() stays within the closed set", () => {
  fc.assert(
    fc.property(fc.string(), (code) => {
      assert(Object.hasOwn(ANSWERS, databaseErrorCode(code)), code);
    }),
    { examples: [["constructor"], ["valueOf"], ["__proto__"]] },
  );
});

Deno.test("databaseError() keeps out of the log what may repeat the data", () => {
  const says = 'invalid input syntax: "of the payload"';
  const refused = databaseError("22P02", says);
  assertEquals([refused.code, refused.message], ["apply_failed", says]);
  assert(!refused.logMessage.includes("payload"), refused.logMessage);
  assert(refused.logMessage.includes("22P02"), refused.logMessage);

  for (const code of ["BW001", "42501", "57014", undefined]) {
    assertEquals(databaseError(code, says).logMessage, says);
  }
});
