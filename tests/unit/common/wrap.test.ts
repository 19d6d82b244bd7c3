import { assertEquals } from "@std/assert";
import { wrap } from "../../../scripts/common/wrap.ts";

Deno.test("wrap() breaks at words, and leaves a longer word whole", () => {
  assertEquals(wrap("one two three four", 16), ["one two three", "four"]);
  assertEquals(wrap("exactly_sixteen_ and more", 16), [
    "exactly_sixteen_",
    "and more",
  ]);
  assertEquals(wrap("see https://example.com/path now", 16), [
    "see",
    "https://example.com/path",
    "now",
  ]);
  assertEquals(wrap("", 16), []);
});

Deno.test("wrap() gives a line no fewer than 16 columns", () => {
  for (const width of [-5, 0, 1, 16]) {
    assertEquals(wrap("at most sixteen columns", width), [
      "at most sixteen",
      "columns",
    ]);
  }
});
