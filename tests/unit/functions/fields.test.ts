import { assertEquals } from "@std/assert";
import {
  identifier,
  isIdentifier,
  isRecord,
  isUnixSeconds,
  isWholeNumber,
  member,
  unixSeconds,
} from "../../../supabase/functions/_shared/billing/fields.ts";

const FIRST = Date.UTC(2000, 0) / 1000;
const LAST = Date.UTC(2200, 0) / 1000;

/** Values that are of the kind, and values that are not. */
const KINDS: Record<
  string,
  [test: (value: unknown) => boolean, good: unknown[], bad: unknown[]]
> = {
  identifier: [
    isIdentifier,
    [
      "evt_1ExampleUpdated0000000001",
      "0",
      "a".repeat(255),
      " padded ",
      "ключ",
      "\u{1f600}".repeat(255),
      "\u00a0x",
      "'; drop table subscriptions; --",
      "<script>{{7*7}}</script>",
      "__proto__",
    ],
    [
      ...["", " ", "\u00a0\u3000", "a".repeat(256), "\u{1f600}".repeat(256)],
      ...["a\0", "a\x1f", "a\nb", "a\r", "a\tb", "\u001b[2J", "a\u007f"],
      ...["a\u0085b", "a\u009f", "a\u2028b", "a\u2029b", "\ud800", "a\udc00b"],
      ...["\udc00\ud800", undefined, null, 1, true, [], ["evt_1"], { id: "x" }],
    ],
  ],
  unixSeconds: [isUnixSeconds, [FIRST, 1_793_624_405, LAST], [
    ...[FIRST - 1, LAST + 1, 0, -1, 1_793_624_405_000, 1_793_624_405.5],
    ...[2 ** 53, Infinity, -Infinity, NaN, "1793624405", null, undefined],
    ...[true, [], 1_793_624_405n, new Date()],
  ]],
  wholeNumber: [(value) => isWholeNumber(value, 9), [0, -0, 1, 9], [
    ...[-1, 10, 0.5, NaN, Infinity, "5", null, undefined, true, [], [5], {}],
  ]],
  record: [isRecord, [{}, { a: 1 }], [null, [], "a", 1, true, undefined]],
};
for (const [name, [test, good, bad]] of Object.entries(KINDS)) {
  Deno.test(`fields.ts knows what is of the kind ${name}`, () => {
    for (const value of good) assertEquals(test(value), true, String(value));
    for (const value of bad) assertEquals(test(value), false, String(value));
  });
}

Deno.test("the schemas agree with the functions", () => {
  const pairs = [["identifier", identifier], [
    "unixSeconds",
    unixSeconds,
  ]] as const;
  for (const [name, schema] of pairs) {
    const [test, good, bad] = KINDS[name]!;
    for (const value of [...good, ...bad]) {
      const { success } = schema.safeParse(value);
      assertEquals(success, test(value), String(value));
    }
  }
});

Deno.test("member() returns own members alone", () => {
  const cases: [value: unknown, name: string, found: unknown][] = [
    [{ a: 1 }, "a", 1],
    [{ a: null }, "a", null],
    [["x"], "length", 1],
    [{ a: 1 }, "b", undefined],
    [{}, "constructor", undefined],
    [JSON.parse('{"__proto__":{"a":1}}'), "a", undefined],
    ["text", "length", undefined],
    [null, "a", undefined],
    [undefined, "a", undefined],
  ];
  for (const [value, name, found] of cases) {
    assertEquals(member(value, name), found);
  }
});
