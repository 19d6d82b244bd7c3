import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { compareLines } from "../../../scripts/console/compare_lines.ts";
import { readFailureFilter } from "../../../scripts/console/failure_filter.ts";
import { prettyJson } from "../../../scripts/console/json_text.ts";
import { markdownLine } from "../../../scripts/console/pages/markdown.ts";
import { readRunbook } from "../../../scripts/console/runbook.ts";
import {
  resolveSql,
  retryAllSql,
  retrySql,
  sqlString,
} from "../../../scripts/console/sql.ts";
import { formatTime, relativeTime } from "../../../scripts/console/time.ts";
import { visible, visibleJson } from "../../../scripts/console/visible.ts";
import { ANSWERS } from "../../../supabase/functions/_shared/billing/errors.ts";

Deno.test("prettyJson() formats as JSON.stringify does", () => {
  fc.assert(fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
    const expected = JSON.stringify(value, null, 2);
    assertEquals(prettyJson(JSON.stringify(value)).text, expected);
    assertEquals(prettyJson(expected).text, expected);
  }));
});

Deno.test("prettyJson() keeps numbers and duplicate keys as they are", () => {
  assertEquals(
    prettyJson('{"a":12345678901234567890, "a":1.10,"b":[1e400]}').text,
    '{\n  "a": 12345678901234567890,\n  "a": 1.10,\n  "b": [\n    1e400\n  ]\n}',
  );
});

Deno.test("prettyJson() does not grow squared with the depth", () => {
  const depth = 5_000;
  const json = "[".repeat(depth) + "]".repeat(depth);
  assert(prettyJson(json).text.length < 100 * depth);
});

Deno.test("prettyJson() stops after the characters that are wanted", () => {
  const json = JSON.stringify(Array.from({ length: 100_000 }, (_, i) => i));
  const { text, isCut } = prettyJson(json, { maxLength: 1_000 });
  assertEquals([text.length, isCut], [1_000, true]);
  assertEquals(prettyJson("[1]", { maxLength: 1_000 }).isCut, false);
});

Deno.test("sqlString() writes each text so that it can be pasted", () => {
  for (
    const [text, sql] of [
      ["evt_1", "'evt_1'"],
      ["it's", "'it''s'"],
      ["a\nb", "'a\nb'"],
      ["'; drop table x; --", "'''; drop table x; --'"],
      ["a\\b'", "e'a\\\\b'''"],
      ["a\u202eb", "e'a\\U0000202eb'"],
      ["a\tb", "e'a\\U00000009b'"],
    ] as const
  ) assertEquals(sqlString(text), sql);
});

Deno.test("the statements are those of the runbook", () => {
  const key = { provider: "a", eventId: "evt_1" };
  assertEquals(
    retrySql(key),
    "select billing.retry_failed_event('evt_1', of_provider => 'a');",
  );
  assertEquals(
    resolveSql(key, { reason: "a test", who: "Kim" }),
    "select billing.resolve_failed_event('evt_1', 'a test', 'Kim', of_provider => 'a');",
  );
  assertEquals(
    retryAllSql({ state: "open" }),
    "select billing.retry_failed_events();",
  );
  assertEquals(
    retryAllSql({ state: "open", code: "event_invalid", type: "x" }),
    "select billing.retry_failed_events(of_type => 'x', of_error_code => 'event_invalid');",
  );
});

Deno.test("readFailureFilter() takes a time without a zone as UTC", () => {
  const fields: Record<string, string> = {
    state: "resolved",
    code: " event_invalid ",
    type: "",
    since: "2026-11-22T10:00",
    until: "tomorrow",
  };
  assertEquals(readFailureFilter((name) => fields[name]), {
    state: "resolved",
    code: "event_invalid",
    since: "2026-11-22T10:00:00.000Z",
  });
});

Deno.test("visible() marks what cannot be seen, and nothing else", () => {
  assertEquals(
    `${visible("Zoë <b> 日本 🙂")}`,
    "<bdi>Zoë &lt;b&gt; 日本 🙂</bdi>",
  );
  assertEquals(
    `${visible("a\u202eb")}`,
    '<bdi>a<span class="hidden-mark">U+202E</span>b</bdi>',
  );
});

Deno.test("visibleJson() writes what cannot be seen as JSON does", () => {
  const json = JSON.stringify({ a: "x\u202ey\u{e0001}\u200b" }, null, "\t");
  const shown = visibleJson(json);
  assertEquals(shown, '{\n\t"a": "x\\u202ey\\udb40\\udc01\\u200b"\n}');
  assertEquals(JSON.parse(shown), JSON.parse(json));
});

Deno.test("compareLines() puts what changed side by side", () => {
  assertEquals(compareLines("a\nb\nc", "a\nB\nc\nd"), [
    { before: "a", after: "a", isSame: true },
    { before: "b", after: "B", isSame: false },
    { before: "c", after: "c", isSame: true },
    { before: undefined, after: "d", isSame: false },
  ]);
  assertEquals(compareLines("a\n".repeat(6_000), "b"), undefined);
});

Deno.test("compareLines() leaves texts alone that have little in common", () => {
  const text = (prefix: string, count: number) =>
    Array.from({ length: count }, (_, i) => `${prefix}${i}`).join("\n");
  // It would take seconds, and hundreds of megabytes.
  assertEquals(compareLines(text("a", 4_900), text("b", 4_900)), undefined);
  assertEquals(compareLines(text("a", 4_900), text("b", 20)), undefined);
  const long = text("a", 4_900);
  const changed = long.replace(/^a\d*00$/gm, "changed");
  assertEquals(
    compareLines(long, changed)?.filter(({ isSame }) => !isSame).length,
    48,
  );
  assertEquals(compareLines(long, long)?.length, 4_900);
});

Deno.test("formatTime() and relativeTime() name the zone and the distance", () => {
  const text = "2026-11-22T01:30:00.5+01:00";
  assertEquals(formatTime(text), "2026-11-22 00:30:00 UTC");
  assertEquals(formatTime("infinity"), "infinity");
  const timeMs = Date.parse(text);
  for (
    const [afterMs, expected] of [
      [5_000, "5 s ago"],
      [180_000, "3 min ago"],
      [7_200_000, "2 h ago"],
      [300_000_000, "3 days ago"],
      [-60_000, "in 1 min"],
    ] as const
  ) assertEquals(relativeTime(text, timeMs + afterMs), expected);
});

Deno.test("readRunbook() finds what the runbook says about every code", async () => {
  const runbook = await readRunbook();
  assertEquals([...runbook.keys()].sort(), Object.keys(ANSWERS).sort());
  for (const [code, { means }] of runbook) assert(means.length > 10, code);
  assert(runbook.get("event_invalid")?.todo.startsWith("[repair the payload"));
});

Deno.test("markdownLine() shows code, and the page that a link leads to", () => {
  assertEquals(
    `${markdownLine("see `a<b` and [reconcile](reconcile.md#x), [above](#y)")}`,
    "see <code>a&lt;b</code> and reconcile (<code>docs/reconcile.md</code>), above",
  );
});
