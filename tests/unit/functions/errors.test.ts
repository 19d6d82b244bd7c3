import { assertEquals, assertStringIncludes } from "@std/assert";
import {
  ANSWERS,
  DeliveryError,
  type ErrorCode,
  toDeliveryError,
} from "../../../supabase/functions/_shared/billing/errors.ts";

/** The table of what the outside sees, code by code. */
const STATUSES: Record<ErrorCode, number> = {
  path_unknown: 404,
  method_not_allowed: 405,
  encoding_unsupported: 415,
  body_too_large: 413,
  body_too_slow: 408,
  body_incomplete: 400,
  signature_missing: 401,
  signature_ambiguous: 401,
  signature_malformed: 401,
  signature_too_old: 401,
  signature_too_far_ahead: 401,
  signature_mismatch: 401,
  provider_misconfigured: 500,
  body_empty: 400,
  body_not_text: 400,
  body_not_json: 400,
  event_invalid: 422,
  subscription_unknown: 500,
  creation_pending: 500,
  subscription_of_other_provider: 500,
  repair_pending: 500,
  apply_failed: 500,
  deployment_fault: 500,
  internal_error: 500,
  overloaded: 503,
  record_locked: 503,
  database_unavailable: 503,
  failure_not_recorded: 503,
};

Deno.test("ANSWERS has the documented status for each code", () => {
  const statuses = Object.entries(ANSWERS)
    .map(([code, { status }]) => [code, status]);
  assertEquals(Object.fromEntries(statuses), STATUSES);
});

Deno.test("ANSWERS has the same reply for every failed signature", () => {
  for (const [code, answer] of Object.entries(ANSWERS)) {
    if (!code.startsWith("signature_")) continue;
    assertEquals<unknown>(answer, { status: 401, body: "Invalid signature" });
  }
});

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
