import { assertEquals, assertThrows } from "@std/assert";
import { decodeBody } from "../../../supabase/functions/_shared/billing/parse_event.ts";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";

Deno.test("decodeBody() keeps nothing of a body that ends within a character", () => {
  const broken = Uint8Array.from([0x7b, 0xe2, 0x82]);
  const { code } = assertThrows(() => decodeBody(broken), DeliveryError);
  assertEquals(code, "body_not_text");
  assertEquals(decodeBody(new TextEncoder().encode("{}")), "{}");
});

Deno.test("decodeBody() drops the byte order mark of each body", () => {
  const marked = Uint8Array.from([0xef, 0xbb, 0xbf, 0x7b, 0x7d]);
  assertEquals([decodeBody(marked), decodeBody(marked)], ["{}", "{}"]);
});
