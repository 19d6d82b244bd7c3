import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { compareLines } from "../../../scripts/console/payload.tsx";
import { markdownLine, RUNBOOK } from "../../../scripts/console/runbook.tsx";
import {
  formatTime,
  prettyJson,
  relativeTime,
  sqlString,
  visible,
  visibleJson,
} from "../../../scripts/console/text.tsx";
import { ERRORS } from "../../../supabase/functions/_shared/billing/errors.ts";

Deno.test("prettyJson() formats as JSON.stringify does, and keeps numbers and duplicate keys", () => {
  fc.assert(fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
    const expected = JSON.stringify(value, null, 2);
    assertEquals(prettyJson(JSON.stringify(value)).text, expected);
    assertEquals(prettyJson(expected).text, expected);
  }));
  assertEquals(
    prettyJson('{"a":12345678901234567890, "a":1.10,"b":[1e400]}').text,
    '{\n  "a": 12345678901234567890,\n  "a": 1.10,\n  "b": [\n    1e400\n  ]\n}',
  );
});

Deno.test("prettyJson() copes with depth, escapes and length", () => {
  const depth = 5_000;
  const deep = prettyJson("[".repeat(depth) + "]".repeat(depth)).text;
  assert(deep.length < 100 * depth);
  const escaped = JSON.stringify('"\\'.repeat(500_000));
  assertEquals(prettyJson(escaped).text, escaped);
  const json = JSON.stringify(Array.from({ length: 100_000 }, (_, i) => i));
  const { text, isCut } = prettyJson(json, 1_000);
  assertEquals([text.length, isCut], [1_000, true]);
  assertEquals(prettyJson("[1]", 1_000).isCut, false);
});

Deno.test("sqlString() writes each text so that it can be pasted", () => {
  for (
    const [text, sql] of [
      ["evt_1", "'evt_1'"],
      ["it's", "'it''s'"],
      ["a\nb", "'a\nb'"],
      ["a\\b'", "e'a\\\\b'''"],
      ["a\u202eb", "e'a\\U0000202eb'"],
      ["a\tb", "e'a\\U00000009b'"],
    ] as const
  ) assertEquals(sqlString(text), sql);
});

Deno.test("visible() and visibleJson() mark what cannot be seen, and nothing else", () => {
  assertEquals(
    `${visible("Zoë <b> 日本 🙂\u202e")}`,
    "<bdi>Zoë &lt;b&gt; 日本 🙂<mark>U+202E</mark></bdi>",
  );
  const json = JSON.stringify({ a: "x\u202ey\u{e0001}\u200b" }, null, "\t");
  const shown = visibleJson(json);
  assertEquals(shown, '{\n\t"a": "x\\u202ey\\udb40\\udc01\\u200b"\n}');
  assertEquals(JSON.parse(shown), JSON.parse(json));
});

Deno.test("compareLines() shows what changed with the lines around it", () => {
  const before = Array.from({ length: 20 }, (_, i) => `${i}`);
  assertEquals(
    compareLines(before.join("\n"), before.with(10, "x").join("\n")),
    [
      ...["@ 6 equal lines", " 6", " 7", " 8", " 9", "-10", "+x"],
      ...[" 11", " 12", " 13", " 14", "@ 5 equal lines"],
    ],
  );
  assertEquals(compareLines("a\n".repeat(1_000), "b"), undefined);
});

Deno.test("formatTime() and relativeTime() name the zone and the distance", () => {
  const text = "2026-11-22T01:30:00.5+01:00";
  assertEquals(formatTime(text), "2026-11-22 00:30:00 UTC");
  assertEquals([formatTime("infinity"), relativeTime("infinity")], [
    "infinity",
    "",
  ]);
  for (
    const [afterMs, expected] of [
      [5_000, "5 s ago"],
      [180_000, "3 min ago"],
      [7_200_000, "2 h ago"],
      [300_000_000, "3 days ago"],
      [-60_000, "in 1 min"],
    ] as const
  ) assertEquals(relativeTime(text, Date.parse(text) + afterMs), expected);
});

Deno.test("the runbook is read: every code, its code marks and its links", () => {
  assertEquals([...RUNBOOK.keys()].sort(), Object.keys(ERRORS).sort());
  for (const [code, { means }] of RUNBOOK) assert(means.length > 10, code);
  const line = markdownLine("`a<b`, [reconcile](reconcile.md#x), [above](#y)");
  assertEquals(
    [line].flat(2).join(""),
    "<code>a&lt;b</code>, reconcile (<code>docs/reconcile.md</code>), above",
  );
});
