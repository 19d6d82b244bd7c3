import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import { advice, type Sent } from "../../../scripts/trigger/advice.ts";
import type { EventType } from "../../../scripts/events/templates.ts";

const SENT: Sent = {
  provider: "a",
  source: { type: "customer.subscription.created" },
};
const OK = { status: 200, body: "OK" };

/** The advice after an answer other than 200. */
function adviceOn(
  answer: { status: number; body?: string; errorCode?: string },
  sent: Partial<Sent> = {},
): string {
  return advice({ body: "", ...answer }, { ...SENT, ...sent }) ?? "";
}

Deno.test("advice() goes through the types in the README's order, and on to another subscription", () => {
  const after = (type: EventType) => advice(OK, { ...SENT, source: { type } });
  assertEquals(
    after("customer.subscription.created"),
    "Next: deno task trigger customer.subscription.updated",
  );
  assertEquals(
    after("customer.subscription.updated"),
    "Next: deno task trigger invoice.payment_failed",
  );
  assertEquals(
    after("invoice.payment_failed"),
    "The receiver added a row to billing.notifications, and the worker sends it. Next: deno task trigger customer.subscription.deleted",
  );
  assertEquals(
    after("customer.subscription.deleted"),
    "Next, another subscription: deno task trigger customer.subscription.created --subscription sub_local_a_2",
  );
});

Deno.test("advice() names the next command, about the same subscription", () => {
  assertEquals(
    advice(OK, {
      provider: "b",
      url: "http://127.0.0.1:1/",
      source: { type: "customer.subscription.updated", subscription: "sub_1" },
    }),
    "Next: deno task trigger invoice.payment_failed --provider b --subscription sub_1 --url http://127.0.0.1:1/",
  );
});

Deno.test("advice() says what to look at after a refusal", () => {
  assertStringIncludes(
    adviceOn({ status: 401 }, { provider: "b" }),
    "PROVIDER_B_SIGNING_SECRET",
  );
  assertStringIncludes(
    adviceOn({ status: 500 }, { source: { type: "invoice.payment_failed" } }),
    "deno task trigger customer.subscription.created",
  );
  assertMatch(adviceOn({ status: 500 }), /log has the reason/);
  assertMatch(adviceOn({ status: 503 }), /database/);
  assertMatch(
    adviceOn({ status: 503, errorCode: "record_locked" }),
    /^Another session has locked the record/,
  );
});

Deno.test("advice() asks for the creation only if that may be missing", () => {
  const after = (errorCode?: string) =>
    adviceOn({ status: 500, ...(errorCode && { errorCode }) }, {
      source: { type: "customer.subscription.updated" },
    });
  for (const code of [undefined, "subscription_unknown", "creation_pending"]) {
    assertStringIncludes(after(code), "create it first");
  }
  for (const code of ["apply_failed", "deployment_fault", "repair_pending"]) {
    assertStringIncludes(after(code), "failed_events");
    assert(!after(code).includes("create it first"), code);
  }
});

Deno.test("advice() says where a refused event is recorded", () => {
  for (const status of [400, 422, 500]) {
    assertStringIncludes(
      adviceOn({ status }),
      "The event is in billing.failed_events. To repair it: deno task console, or docs/runbook.md for SQL",
    );
  }
});

Deno.test("advice() does not send to the log if the row has the reason", () => {
  assertMatch(
    adviceOn({ status: 500, errorCode: "apply_failed" }),
    /^The event is in billing.failed_events/,
  );
});

Deno.test("advice() does not mention failed_events if the provider is not configured", () => {
  for (
    const type of [
      "customer.subscription.created",
      "invoice.payment_failed",
    ] as const
  ) {
    const said = adviceOn(
      { status: 500, body: "Receiver is not configured" },
      { provider: "b", source: { type } },
    );
    assertStringIncludes(said, "PROVIDER_B_SIGNING_SECRET");
    assert(!said.includes("failed_events"), said);
  }
});

Deno.test("advice() has none for a file that was accepted", () => {
  assertEquals(advice(OK, { ...SENT, source: { payload: "x" } }), null);
});

Deno.test("advice() quotes what a shell would read otherwise", () => {
  for (
    const [subscription, shown] of [
      ["sub_1-a", "sub_1-a"],
      ["a b; rm -rf ~", "'a b; rm -rf ~'"],
      ["it's", `'it'\\''s'`],
    ] as const
  ) {
    const source = {
      type: "customer.subscription.created",
      subscription,
    } as const;
    assertEquals(
      advice(OK, { ...SENT, source }),
      `Next: deno task trigger customer.subscription.updated --subscription ${shown}`,
    );
  }
});
