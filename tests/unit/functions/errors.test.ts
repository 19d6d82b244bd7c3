import { assertEquals, assertStringIncludes } from "@std/assert";
import {
  ANSWERS,
  DeliveryError,
  toDeliveryError,
} from "../../../supabase/functions/_shared/billing/errors.ts";

Deno.test("ANSWERS has a short text if a verified event failed", () => {
  const withText = new Set([400, 422, 500, 503]);
  for (const [code, { status, body }] of Object.entries(ANSWERS)) {
    if (code === "body_incomplete" || !withText.has(status)) continue;
    assertEquals(/^[A-Z][A-Za-z0-9 -]{5,40}$/.test(body), true, code);
  }
});

Deno.test("toDeliveryError() hands on what has a code", () => {
  const error = new DeliveryError("body_empty", "The body is empty");
  assertEquals(toDeliveryError(error) === error, true);
  assertEquals(error.name, "DeliveryError");
  assertEquals(error instanceof Error, true);
});

Deno.test("DeliveryError has its message for the log unless it is given another", () => {
  const plain = new DeliveryError("body_empty", "The body is empty");
  assertEquals(plain.logMessage, "The body is empty");
  const cause = new Error("the cause");
  const other = new DeliveryError("apply_failed", "with data", {
    logMessage: "without",
    cause,
  });
  assertEquals([other.message, other.logMessage], ["with data", "without"]);
  assertEquals(other.cause, cause);
});

Deno.test("toDeliveryError() makes anything else an internal error, with its cause", () => {
  const thrown = [
    new TypeError("x is not a function"),
    "text",
    null,
    undefined,
  ];
  for (const cause of thrown) {
    const error = toDeliveryError(cause);
    assertEquals(error.code, "internal_error");
    assertEquals(error.cause, cause);
  }
  assertStringIncludes(
    toDeliveryError(new TypeError("x is not a function")).message,
    "x is not a function",
  );
});
