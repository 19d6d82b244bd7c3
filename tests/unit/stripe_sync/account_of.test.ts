import { assertEquals } from "@std/assert";
import { accountOf } from "../../../scripts/stripe_sync/account_of.ts";

const customer = "cus_1";

Deno.test("accountOf() returns metadata.accountId, whatever --account-from says", () => {
  const metadata = { accountId: "acc_1", team: "team_1" };
  for (const from of [undefined, "customer", "team"]) {
    assertEquals(accountOf({ metadata, customer }, from), "acc_1");
  }
});

Deno.test("accountOf() uses the other source if accountId is missing or blank", () => {
  for (
    const metadata of [{ team: "team_1" }, { team: "team_1", accountId: " " }]
  ) {
    assertEquals(accountOf({ metadata, customer }, undefined), undefined);
    assertEquals(accountOf({ metadata, customer }, "team"), "team_1");
    assertEquals(accountOf({ metadata, customer }, "other"), undefined);
    assertEquals(accountOf({ metadata, customer }, "customer"), "cus_1");
  }
  const metadata = { team: "" };
  assertEquals(accountOf({ metadata, customer }, "team"), undefined);
  // Keys of the metadata only.
  assertEquals(accountOf({ metadata, customer }, "constructor"), undefined);
});
