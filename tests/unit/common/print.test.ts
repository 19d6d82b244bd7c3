import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { printable, wrap } from "../../../scripts/common/print.ts";

/** Written by hand, so that a range that the code forgets is missed here. */
function isHarmless(text: string): boolean {
  return [...text].every((character) => {
    const code = character.codePointAt(0) ?? 0;
    return code >= 0x20 && !(code >= 0x7f && code <= 0x9f) &&
      !/\p{Bidi_Control}|\p{Zl}|\p{Zp}/u.test(character);
  });
}

Deno.test("printable() leaves nothing that a terminal obeys", () => {
  assertEquals(
    printable("\x1b[2J\x1b]0;title\x07 \x9b31m a\r\nb\u202ec\u2066"),
    "\\u001b[2J\\u001b]0;title\\u0007 \\u009b31m a\\u000d\\u000ab\\u202ec\\u2066",
  );
  for (let code = 0; code < 0x3000; code++) {
    assertEquals(isHarmless(printable(String.fromCharCode(code))), true);
  }
});

Deno.test("printable() leaves text as it is, and a JSON document the same one", () => {
  for (const text of ["", "a b", "Größe 日本語 🎉", 'C:\\u "x"']) {
    assertEquals(printable(text), text);
  }
  fc.assert(
    fc.property(fc.array(fc.string({ unit: "binary" })), (value) => {
      const text = printable(JSON.stringify(value));
      assertEquals(isHarmless(text), true);
      assertEquals(JSON.parse(text), value);
    }),
  );
});

Deno.test("wrap() breaks at words, and at no fewer than 16 columns", () => {
  const long = "https://example.com/path";
  assertEquals(wrap("", 16), []);
  assertEquals(wrap("one two three four", 16), ["one two three", "four"]);
  assertEquals(wrap("just_as_long_as_ a", 16), ["just_as_long_as_", "a"]);
  assertEquals(wrap(`see ${long} now`, 16), ["see", long, "now"]);
  assertEquals(wrap("at most sixteen columns", -5).length, 2);
});
