import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { advice } from "../../scripts/trigger/advice.ts";
import type { TriggerArguments } from "../../scripts/trigger/arguments.ts";
import { DEFAULT_URL } from "../../scripts/trigger/usage.ts";

const SENT: TriggerArguments = {
  provider: "a",
  url: DEFAULT_URL,
  what: { type: "customer.subscription.created" },
};

Deno.test("advice() names the next command, about the same subscription", () => {
  assertEquals(
    advice(200, SENT),
    "Next: deno task trigger customer.subscription.updated",
  );
  assertEquals(
    advice(200, {
      provider: "b",
      url: "http://127.0.0.1:1/",
      what: { type: "customer.subscription.updated", subscription: "sub_1" },
    }),
    "Next: deno task trigger customer.subscription.deleted --provider b --subscription sub_1 --url http://127.0.0.1:1/",
  );
});

Deno.test("advice() says what to look at after a refusal", () => {
  assertStringIncludes(
    advice(401, { ...SENT, provider: "b" }) ?? "",
    "PROVIDER_B_SIGNING_SECRET",
  );
  assertStringIncludes(
    advice(500, { ...SENT, what: { type: "invoice.payment_failed" } }) ?? "",
    "deno task trigger customer.subscription.created",
  );
  assertMatch(advice(500, SENT) ?? "", /log/);
  assertMatch(advice(503, SENT) ?? "", /database/);
});

Deno.test("advice() has none for a file that was accepted", () => {
  assertEquals(advice(200, { ...SENT, what: { payload: "x" } }), null);
});
