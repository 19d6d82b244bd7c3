import { assertEquals } from "@std/assert";
import { retryAfterSeconds } from "../../../supabase/functions/billing-worker/channels/post_message.ts";

// A second and a half past the full minute.
const NOW = Date.parse("2026-11-21T06:24:01.500Z");

for (
  const [header, seconds] of [
    [null, undefined],
    ["", undefined],
    ["0", 0],
    ["5", 5],
    ["007", 7],
    ["999999999", 999_999_999],
    // The form that RFC 9110, section 5.6.7, asks for, and an obsolete one.
    ["Sat, 21 Nov 2026 06:25:00 GMT", 59],
    ["Saturday, 21-Nov-26 06:25:00 GMT", 59],
    ["Sat, 21 Nov 2026 06:24:02 GMT", 1],
    ["Sat, 21 Nov 2026 06:24:00 GMT", undefined],
    ["Thu, 01 Jan 1970 00:00:00 GMT", undefined],
    ["-5", undefined],
    ["1.5", undefined],
    ["10 s", undefined],
    ["1e3", undefined],
    ["soon", undefined],
  ] as const
) {
  Deno.test(`retryAfterSeconds() makes ${seconds} of ${header}`, () => {
    assertEquals(retryAfterSeconds(header, NOW), seconds);
  });
}
