import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { HelpRequest, UsageError } from "../../../scripts/common/cli.ts";
import { EVENT_TYPES } from "../../../scripts/events/templates.ts";
import { parseTriggerArguments } from "../../../scripts/trigger/arguments.ts";

const TYPE = "invoice.payment_failed";
const RECEIVER = "http://127.0.0.1:54321/functions/v1/billing-webhook";
const parsed = (line: string) =>
  parseTriggerArguments(line.split(" ").filter(Boolean));

Deno.test("parseTriggerArguments() takes an event type with options, or a file", () => {
  const local = { provider: "a", url: RECEIVER, print: false } as const;
  for (const type of EVENT_TYPES) {
    assertEquals(parsed(type), { ...local, source: { type } });
  }
  const source = { payload: "event.json" };
  assertEquals(parsed("--payload event.json"), { ...local, source });
  const event = { subscription: "S", account: "A", event: "E" };
  assertEquals(
    parsed(
      `--subscription S ${TYPE} --account A --event E --status T --plan P`,
    ),
    { ...local, source: { type: TYPE, ...event, status: "T", plan: "P" } },
  );
  const { source: _, ...where } = parsed(
    `${TYPE} --provider=b --url https://a`,
  );
  assertEquals(where, { provider: "b", url: "https://a", print: false });
  assertEquals(parsed(`${TYPE} --print`).print, true);
  assertThrows(() => parsed("--help"), HelpRequest, "--payload");
});

Deno.test("parseTriggerArguments() refuses what it does not take", () => {
  for (
    const [line, message] of [
      ["invoice.payment_faild", "Choose one of "],
      [`${TYPE} --provider z`, 'Unknown provider "z"'],
      [`${TYPE} --url localhost:1`, "--url takes"],
      [`${TYPE} sub_1`, "one event type, not 2 words"],
      [`${TYPE} --payload x`, `leave out: ${TYPE}`],
      ["--payload x --event evt_1", "leave out: --event"],
      ["--payload x --print", "not for a --payload"],
    ] as const
  ) {
    assertThrows(() => parsed(line), UsageError, message);
  }
  for (const line of ["invoice.paid", ""]) {
    const { message } = assertThrows(() => parsed(line), UsageError);
    for (const type of EVENT_TYPES) assertStringIncludes(message, type);
  }
});
