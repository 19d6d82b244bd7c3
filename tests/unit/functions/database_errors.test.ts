import { assertEquals } from "@std/assert";
import {
  databaseError,
  databaseErrorCode,
} from "../../../supabase/functions/_shared/billing/database/database_errors.ts";
import type { ErrorCode } from "../../../supabase/functions/_shared/billing/errors.ts";

const CODES: Partial<Record<ErrorCode, string>> = {
  database_unavailable:
    // Disk full on Supabase (25006), times in the platform's token (PGRST303).
    "08000 08006 08P01 25006 26000 40001 40P01 42P05 53000 53300 57014 57P01 58030 PGRST000 PGRST003 PGRST303",
  deployment_fault:
    "42501 42883 42P01 42703 PGRST106 PGRST125 PGRST200 PGRST202 PGRST209 PGRST300 BW003",
  key_refused: "PGRST301 PGRST302",
  subscription_unknown: "BW001",
  subscription_of_other_provider: "BW002",
  repair_pending: "BW004",
  account_unknown: "BW005",
  event_invalid: "BW009",
  creation_pending: "BW006",
  handler_missing: "BW007",
  record_locked: "55P03",
  apply_failed:
    "22P05 22003 23505 42601 54000 P0001 XX000 BW000 BW0011 xBW001 PGRST004 PGRST100 PGRST116 PGRST127 PGRST210 PGRST304 PGRSTX00 x42501 425010 5701 570145 250060 constructor __proto__",
};
Deno.test("databaseError() knows codes, and keeps data out of the log", () => {
  const says = 'invalid input syntax: "LEAKED"';
  for (const [expected, codes = ""] of Object.entries(CODES)) {
    for (const code of codes.split(" ")) {
      const error = databaseError(code, says);
      assertEquals([error.code, error.message], [expected, says], code);
      const logged = expected === "apply_failed"
        ? `The database refused the event with ${code}: see its row in failed_events`
        : says;
      assertEquals(error.logMessage, logged);
    }
  }

  const raised = "billing.on_x raised P0042: LEAKED: 900";
  const { code, message, logMessage } = databaseError("BW008", raised);
  assertEquals([code, message, logMessage], [
    "apply_failed",
    raised,
    "billing.on_x raised P0042: see its row in failed_events",
  ]);

  for (const code of [undefined, ""]) {
    assertEquals(databaseErrorCode(code), "database_unavailable");
    // A key that was revoked, as the project's gateway refuses it.
    assertEquals(databaseErrorCode(code, 401), "key_refused");
    assertEquals(databaseErrorCode(code, 403), "key_refused");
    assertEquals(databaseErrorCode(code, 400), "database_unavailable");
  }
});
