import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  checkedKey,
  checkedProjectUrl,
  oneOf,
} from "../../../scripts/common/option_values.ts";
import { UsageError } from "../../../scripts/common/cli.ts";

Deno.test("checkedProjectUrl() returns the address as paths can follow it", () => {
  for (
    const [text, url] of [
      ["https://abc.supabase.co", "https://abc.supabase.co"],
      ["https://abc.supabase.co//", "https://abc.supabase.co"],
      // As pasted.
      [" https://abc.supabase.co/\n", "https://abc.supabase.co"],
      ["https://self.hosted.example/api/", "https://self.hosted.example/api"],
      ["http://127.0.0.1:54321/", "http://127.0.0.1:54321"],
    ] as const
  ) {
    assertEquals(checkedProjectUrl("SUPABASE_URL", text), url);
  }
});

Deno.test("checkedProjectUrl() refuses what no path can follow", () => {
  for (
    const text of [
      "https://abc.supabase.co?x=1",
      "https://abc.supabase.co/#f",
      "https://abc.supabase.co/functions/v1/billing-webhook",
    ]
  ) {
    assertThrows(
      () => checkedProjectUrl("SUPABASE_URL", text),
      UsageError,
      "SUPABASE_URL takes a URL such as https://abc.supabase.co",
    );
  }
});

Deno.test("checkedKey() refuses a key with a line break, and does not repeat it", () => {
  for (const key of ["sb_secret_one\nsb_secret_two", "sb_secret_one\0"]) {
    const { message } = assertThrows(
      () => checkedKey("SUPABASE_SECRET_KEY", key),
      UsageError,
      "SUPABASE_SECRET_KEY contains a line break",
    );
    assert(!message.includes("sb_"), message);
  }
});

Deno.test("checkedKey() takes a key with a line break at its end", () => {
  const key = "sb_secret_one\n";
  assertEquals(checkedKey("SUPABASE_SECRET_KEY", key), key);
});

Deno.test("oneOf() suggests the closest choice, else lists all", () => {
  const choices = ["created", "deleted"];
  const refusal = (value: string) =>
    assertThrows(() => oneOf(choices, { value, what: "type" }), UsageError);
  assertEquals(oneOf(choices, { value: "deleted", what: "type" }), "deleted");
  assertEquals(
    refusal("delted").message,
    'Unknown type "delted". Did you mean deleted?',
  );
  assertEquals(
    refusal("x").message,
    'Unknown type "x". Choose one of created, deleted.',
  );
});
