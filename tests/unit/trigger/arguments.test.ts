import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { parseArguments } from "../../../scripts/trigger/arguments.ts";
import { UsageError } from "../../../scripts/common/checked.ts";
import { EVENT_TYPES } from "../../../scripts/events/templates.ts";

const LOCAL = "http://127.0.0.1:54321/functions/v1/billing-webhook";

Deno.test("parseArguments() needs no more than an event type", () => {
  for (const type of EVENT_TYPES) {
    assertEquals(parseArguments([type]), {
      provider: "a",
      url: LOCAL,
      what: { type },
    });
  }
});

Deno.test("parseArguments() takes every option, before or after the type", () => {
  assertEquals(
    parseArguments([
      "--provider=b",
      "--subscription",
      "sub_1",
      "customer.subscription.updated",
      "--account",
      "acc_1",
      "--event",
      "evt_1",
      "--url",
      "https://example.com/hook",
      "--status",
      "unpaid",
      "--plan",
      "price_1",
      "--created",
      "1800000000",
      "--api-version",
      "2026-10-28.endive",
    ]),
    {
      provider: "b",
      url: "https://example.com/hook",
      what: {
        type: "customer.subscription.updated",
        subscription: "sub_1",
        account: "acc_1",
        event: "evt_1",
        status: "unpaid",
        plan: "price_1",
        created: 1_800_000_000,
        apiVersion: "2026-10-28.endive",
      },
    },
  );
});

Deno.test("parseArguments() takes a file instead of a type", () => {
  assertEquals(parseArguments(["--payload", "event.json", "--provider", "b"]), {
    provider: "b",
    url: LOCAL,
    what: { payload: "event.json" },
  });
});

Deno.test("parseArguments() is null where help is asked for", () => {
  assertEquals(parseArguments(["--help"]), null);
  assertEquals(parseArguments(["-h"]), null);
});

Deno.test("parseArguments() lists the types for one that it does not know", () => {
  for (const args of [["invoice.paid"], []]) {
    const { message } = assertThrows(() => parseArguments(args), UsageError);
    for (const type of EVENT_TYPES) assertStringIncludes(message, type);
  }
});

for (
  const [args, message] of [
    [["invoice.payment_failed", "--provider", "z"], 'Unknown provider "z"'],
    [["invoice.payment_failed", "--url", "localhost:1"], "--url takes"],
    [["invoice.payment_failed", "--url", "file:///x"], "--url takes"],
    [["invoice.payment_failed", "--created", "now"], "--created takes"],
    [["invoice.payment_failed", "--created", "1.5"], "--created takes"],
    [["invoice.payment_failed", "--api-version", "1"], "Unknown API version"],
    [["invoice.payment_failed", "--subscripton", "x"], "--subscripton"],
    [["invoice.payment_failed", "--event"], "--event"],
    [["invoice.payment_failed", "sub_1"], "One event type, please"],
    [["invoice.payment_failed", "--payload", "x"], "leave out"],
    [["--payload", "x", "--event", "evt_1"], "leave out: --event"],
  ] as const
) {
  Deno.test(`parseArguments() refuses ${args.join(" ")}`, () => {
    assertThrows(() => parseArguments([...args]), UsageError, message);
  });
}
