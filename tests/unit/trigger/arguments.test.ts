import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { parseTriggerArguments } from "../../../scripts/trigger/arguments.ts";
import { HelpRequest, UsageError } from "../../../scripts/common/cli.ts";
import { EVENT_TYPES } from "../../../scripts/events/templates.ts";

const LOCAL = "http://127.0.0.1:54321/functions/v1/billing-webhook";

Deno.test("parseTriggerArguments() needs an event type only", () => {
  for (const type of EVENT_TYPES) {
    assertEquals(parseTriggerArguments([type]), {
      provider: "a",
      url: LOCAL,
      print: false,
      source: { type },
    });
  }
});

Deno.test("parseTriggerArguments() takes every option, before or after the type", () => {
  assertEquals(
    parseTriggerArguments([
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
      print: false,
      source: {
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

Deno.test("parseTriggerArguments() takes a file instead of a type", () => {
  assertEquals(
    parseTriggerArguments(["--payload", "event.json", "--provider", "b"]),
    {
      provider: "b",
      url: LOCAL,
      print: false,
      source: { payload: "event.json" },
    },
  );
});

Deno.test("parseTriggerArguments() explains its options", () => {
  for (const help of ["--help", "-h"]) {
    assertThrows(() => parseTriggerArguments([help]), HelpRequest, "--payload");
  }
});

Deno.test("parseTriggerArguments() lists the types if one is unknown or missing", () => {
  for (const args of [["invoice.paid"], []]) {
    const { message } = assertThrows(
      () => parseTriggerArguments(args),
      UsageError,
    );
    for (const type of EVENT_TYPES) assertStringIncludes(message, type);
  }
});

for (
  const [args, message] of [
    [["invoice.payment_faild"], "Did you mean invoice.payment_failed?"],
    [["invoice.payment_failed", "--provider", "z"], 'Unknown provider "z"'],
    [["invoice.payment_failed", "--url", "localhost:1"], "--url takes"],
    [["invoice.payment_failed", "--url", "file:///x"], "--url takes"],
    [["invoice.payment_failed", "--created", "now"], "--created takes"],
    [["invoice.payment_failed", "--created", "1.5"], "--created takes"],
    [["invoice.payment_failed", "--api-version", "1"], "Unknown API version"],
    [["invoice.payment_failed", "--subscripton", "x"], "--subscripton"],
    [["invoice.payment_failed", "--event"], "--event"],
    [["invoice.payment_failed", "sub_1"], "one event type, not 2 words"],
    [["invoice.payment_failed", "--payload", "x"], "leave out"],
    [["--payload", "x", "--event", "evt_1"], "leave out: --event"],
  ] as const
) {
  Deno.test(`parseTriggerArguments() refuses ${args.join(" ")}`, () => {
    assertThrows(() => parseTriggerArguments([...args]), UsageError, message);
  });
}
