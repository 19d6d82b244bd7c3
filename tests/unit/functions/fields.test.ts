import { assertEquals } from "@std/assert";
import fc from "fast-check";
import {
  identifier,
  isIdentifier,
  isUnixSeconds,
  unixSeconds,
} from "../../../supabase/functions/_shared/billing/fields.ts";

Deno.test("isIdentifier() takes what providers send, and odd but harmless text", () => {
  const good = [
    "evt_1ExampleUpdated0000000001",
    "0",
    "a".repeat(255),
    " padded ",
    "ключ",
    "\u{1f600}".repeat(255),
    "'; drop table subscriptions; --",
    "<script>alert(1)</script>",
    "{{7*7}}",
    "__proto__",
  ];
  for (const text of good) {
    assertEquals(isIdentifier(text), true, text);
    assertEquals(identifier.parse(text), text);
  }
});

Deno.test("isIdentifier() refuses what cannot be stored or shown", () => {
  const bad = [
    "",
    " ",
    "\u00a0\u3000",
    "a".repeat(256),
    "\u{1f600}".repeat(256),
    "\u{1f600}".repeat(100_000),
    "a\0",
    "a\nb",
    "a\r",
    "a\tb",
    "\u001b[2J",
    "a\u007f",
    "a\u0085b",
    "a\u2028b",
    "a\u2029b",
    "\ud800",
    "a\udc00b",
    "\udc00\ud800",
    undefined,
    null,
    1,
    true,
    [],
    ["evt_1"],
    { id: "evt_1" },
  ];
  for (const value of bad) {
    assertEquals(isIdentifier(value), false, JSON.stringify(value));
    assertEquals(identifier.safeParse(value).success, false);
  }
});

Deno.test("isIdentifier() passes nothing that breaks a line or is no Unicode text", () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 6 }),
      (units) => {
        const text = String.fromCharCode(...units);
        const isHarmless = text.isWellFormed() && text.trim() !== "" &&
          units.every((unit) =>
            unit >= 0x20 && (unit < 0x7f || unit > 0x9f) &&
            unit !== 0x2028 && unit !== 0x2029
          );
        assertEquals(isIdentifier(text), isHarmless);
        assertEquals(identifier.safeParse(text).success, isHarmless);
      },
    ),
    { numRuns: 2_000 },
  );
});

Deno.test("unixSeconds and isUnixSeconds() hold the years 2000 to 2200", () => {
  const first = Date.UTC(2000, 0) / 1000;
  const last = Date.UTC(2200, 0) / 1000;
  for (const seconds of [first, 1_793_624_405, last]) {
    assertEquals(unixSeconds.safeParse(seconds).success, true);
    assertEquals(isUnixSeconds(seconds), true);
  }
  const bad = [
    first - 1,
    last + 1,
    0,
    -1,
    1_793_624_405_000,
    1_793_624_405.5,
    2 ** 53,
    Infinity,
    -Infinity,
    NaN,
    "1793624405",
    null,
    undefined,
    true,
    [],
    1_793_624_405n,
    new Date(),
  ];
  for (const value of bad) {
    assertEquals(unixSeconds.safeParse(value).success, false, String(value));
    assertEquals(isUnixSeconds(value), false, String(value));
  }
});
