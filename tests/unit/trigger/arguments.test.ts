import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { HelpRequest, UsageError } from "../../../scripts/common/cli.ts";
import { EVENT_TYPES } from "../../../scripts/events/templates.ts";
import { parseTriggerArguments } from "../../../scripts/trigger/arguments.ts";

const LOCAL = {
  provider: "a",
  url: "http://127.0.0.1:54321/functions/v1/billing-webhook",
  print: false,
};
const INVOICE = "invoice.payment_failed";

Deno.test("parseTriggerArguments() takes an event type with options, or a file", () => {
  const parsed = (line: string) => parseTriggerArguments(line.split(" "));
  for (const type of EVENT_TYPES) {
    assertEquals(parsed(type), { ...LOCAL, source: { type } });
  }
  assertEquals(
    parsed(
      `--provider=b --subscription sub_1 ${INVOICE} --account acc_1 --event evt_1 --url https://a.b/c --status unpaid --plan P --print`,
    ),
    {
      provider: "b",
      url: "https://a.b/c",
      print: true,
      source: {
        type: INVOICE,
        subscription: "sub_1",
        account: "acc_1",
        event: "evt_1",
        status: "unpaid",
        plan: "P",
      },
    },
  );
  assertEquals(parsed("--payload event.json"), {
    ...LOCAL,
    source: { payload: "event.json" },
  });
  assertThrows(() => parsed("--help"), HelpRequest, "--payload");
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
  const [line, message] of [
    ["invoice.payment_faild", `Did you mean ${INVOICE}?`],
    [`${INVOICE} --provider z`, 'Unknown provider "z"'],
    [`${INVOICE} --url localhost:1`, "--url takes"],
    [`${INVOICE} --url file:///x`, "--url takes"],
    [`${INVOICE} sub_1`, "one event type, not 2 words"],
    [`${INVOICE} --payload x`, `leave out: ${INVOICE}`],
    ["--payload x --event evt_1", "leave out: --event"],
    ["--payload x --print", "not for a --payload"],
  ] as const
) {
  Deno.test(`parseTriggerArguments() refuses ${line}`, () => {
    const args = line.split(" ");
    assertThrows(() => parseTriggerArguments(args), UsageError, message);
  });
}
