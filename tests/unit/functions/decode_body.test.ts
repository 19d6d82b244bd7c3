import { assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { decodeBody } from "../../../supabase/functions/_shared/billing/decode_body.ts";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";

/** Text of any code points at all, lone surrogates included. */
const anyText = fc.string({
  unit: fc.integer({ min: 0, max: 0x10ffff })
    .map((codePoint) => String.fromCodePoint(codePoint)),
});

Deno.test("decodeBody() returns any text", () => {
  fc.assert(fc.property(anyText, (text) => {
    fc.pre(text.isWellFormed() && !text.startsWith("\ufeff"));
    assertEquals(decodeBody(new TextEncoder().encode(text)), text);
  }));
});

Deno.test("decodeBody() drops one byte order mark, in front only", () => {
  const mark = "\ufeff";
  const encode = (text: string) => new TextEncoder().encode(text);
  assertEquals(decodeBody(encode(`${mark}{}`)), "{}");
  assertEquals(decodeBody(encode(mark)), "");
  assertEquals(decodeBody(encode(`${mark}${mark}{}`)), `${mark}{}`);
  assertEquals(decodeBody(encode(`{"a":"${mark}"}`)), `{"a":"${mark}"}`);
});

const NOT_UTF8: Record<string, number[]> = {
  "a byte that UTF-8 does not have": [0x7b, 0xff, 0x7d],
  "a continuation byte alone": [0x80],
  "a sequence cut off": [0x7b, 0xe2, 0x82],
  "a sequence interrupted": [0xe2, 0x28, 0xa1],
  "an overlong form": [0xc0, 0xaf],
  "an encoded surrogate": [0xed, 0xa0, 0x80],
  "a code point past the last": [0xf4, 0x90, 0x80, 0x80],
  "Latin-1": [0x22, 0xe9, 0x22],
  "UTF-16 with its byte order mark": [0xff, 0xfe, 0x7b, 0x00],
};
for (const [name, bytes] of Object.entries(NOT_UTF8)) {
  Deno.test(`decodeBody() refuses ${name}`, () => {
    const error = assertThrows(
      () => decodeBody(new Uint8Array(bytes)),
      DeliveryError,
    );
    assertEquals(error.code, "body_not_text");
  });
}
