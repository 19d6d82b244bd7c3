import { assertEquals, assertMatch, assertNotMatch } from "@std/assert";
import {
  ANSWERS,
  DeliveryError,
  type ErrorCode,
} from "../../../supabase/functions/_shared/billing/errors.ts";
import {
  respondError,
  respondOk,
} from "../../../supabase/functions/billing-webhook/respond.ts";

Deno.test("respondOk() answers 200 and OK", async () => {
  const response = respondOk();
  assertEquals(response.status, 200);
  assertEquals(await response.text(), "OK");
  assertEquals(
    response.headers.get("content-type"),
    "text/plain; charset=utf-8",
  );
});

for (const code of Object.keys(ANSWERS) as ErrorCode[]) {
  Deno.test(`respondError() answers ${code} and repeats nothing`, async () => {
    const response = respondError(
      new DeliveryError(code, "whsec_secret evt_1"),
    );
    const { status, body } = ANSWERS[code];
    assertEquals(response.status, status);
    const text = await response.text();
    assertEquals(text, body);
    const whole = text + JSON.stringify([...response.headers]);
    assertNotMatch(whole, /secret|evt_1/);
    assertMatch(response.headers.get("content-type") ?? "", /^text\/plain/);
  });
}

Deno.test("respondError() names the method that is allowed, with 405 only", () => {
  for (const code of Object.keys(ANSWERS) as ErrorCode[]) {
    const { headers, status } = respondError(new DeliveryError(code, ""));
    assertEquals(headers.get("allow"), status === 405 ? "POST" : null, code);
  }
});

Deno.test("respondError() says when to try again, with 503 only", () => {
  for (const code of Object.keys(ANSWERS) as ErrorCode[]) {
    const { headers, status } = respondError(new DeliveryError(code, ""));
    const seconds = headers.get("retry-after");
    if (status === 503) assertMatch(seconds ?? "none", /^[1-9]\d*$/, code);
    else assertEquals(seconds, null, code);
  }
});
