import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { printable } from "../../../scripts/common/print.ts";

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
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      assertEquals(isHarmless(printable(text)), true);
    }),
    {
      examples: Array.from({ length: 0x3000 }, (
        _,
        code,
      ) => [String.fromCharCode(code)]),
      numRuns: 0x3000 + 500,
    },
  );
});

Deno.test("printable() leaves text as it is", () => {
  for (const text of ["", "a b", "Größe 日本語 🎉", 'C:\\u "x"']) {
    assertEquals(printable(text), text);
  }
});

Deno.test("printable() leaves a JSON document the same document", () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: "binary" })), (value) => {
      assertEquals(JSON.parse(printable(JSON.stringify(value))), value);
    }),
  );
});
