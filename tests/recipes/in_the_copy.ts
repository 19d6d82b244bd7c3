/**
 * Tests of what the recipes add. They run in the copy of the repository.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { generateTypes, TYPES_FILE } from "../../scripts/dev/generate_types.ts";
import { signatureHeaders, type Signing } from "../../scripts/common/sign.ts";
import { edited } from "../support/edited.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { installPgtap, runTap, tapFaults } from "../support/pgtap.ts";
import { startReceiver } from "../support/receiver.ts";
import { deliver, post } from "../support/send.ts";
import { connect, storedEvent, subscriptionRecord } from "../support/tables.ts";
import { setting } from "../support/test_environment.ts";

const SQL_TESTS = new URL("../../supabase/tests/", import.meta.url);
const SECRET_OF_C = "secret-of-provider-c";

const sql = connect();
Deno.test.afterAll(() => sql.end());

function creation(subscription: string): string {
  return JSON.stringify(
    subscriptionEvent("customer.subscription.created", { subscription }),
  );
}

Deno.test("an event of the new type is applied, once", async () => {
  await using receiver = await startReceiver();
  const subscription = uniqueId("sub");
  await deliver(receiver.url, creation(subscription));
  const paused = edited(
    subscriptionEvent("customer.subscription.updated", {
      subscription,
      status: "paused",
      previous: null,
      created: Math.floor(Date.now() / 1000) + 1,
    }),
    { type: "customer.subscription.paused" },
  );
  for (const _ of ["first", "again"]) {
    const { status, body } = await deliver(receiver.url, paused);
    assertEquals({ status, body }, { status: 200, body: "OK" });
  }
  const record = await subscriptionRecord(sql, subscription);
  assertEquals(record?.["status"], "paused");
  assertEquals((await storedEvent(sql, paused.id)).ledger, [{
    provider: "a",
    type: "customer.subscription.paused",
    outcome: "applied",
  }]);
});

Deno.test("the new type has its types, and obeys the rules of all functions", async () => {
  assertEquals(
    await generateTypes(setting("TEST_DATABASE_URL")),
    await Deno.readTextFile(TYPES_FILE),
  );
  await installPgtap(setting("TEST_PG_SHARE_DIR"));
  for (const name of ["apply_subscription_paused", "privileges", "catalog"]) {
    const file = new URL(`${name}.test.sql`, SQL_TESTS);
    const lines = await runTap(setting("TEST_DATABASE_URL"), file);
    assertEquals(tapFaults(lines), [], name);
  }
});

Deno.test("an event of the new provider is applied, signed in the new scheme", async () => {
  await using receiver = await startReceiver({
    env: {
      PROVIDER_C_SIGNING_SECRET: SECRET_OF_C,
      PROVIDER_C_SIGNATURE_SCHEME: "hmac-sha256-base64",
    },
  });
  const subscription = uniqueId("sub");
  const body = creation(subscription);
  const send = async (secret: string) => {
    const signing = {
      // Known in the copy alone.
      scheme: "hmac-sha256-base64" as Signing["scheme"],
      header: "provider-c-signature",
      secret,
      body,
    };
    const headers = await signatureHeaders(signing);
    return (await post(receiver.url, { headers, body })).status;
  };
  assertEquals(await send("another secret"), 401);
  assertEquals(await subscriptionRecord(sql, subscription), undefined);
  assertEquals(await send(SECRET_OF_C), 200);
  const record = await subscriptionRecord(sql, subscription);
  assertEquals(record?.["provider"], "c");
});
