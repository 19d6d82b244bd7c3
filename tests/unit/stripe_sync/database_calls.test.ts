import { assertEquals, assertRejects } from "@std/assert";
import { retryDatabase } from "../../../scripts/stripe_sync/database_calls.ts";
import {
  DeliveryError,
  type ErrorCode,
} from "../../../supabase/functions/_shared/billing/errors.ts";

/** Makes calls that fail with these codes in turn, and then succeed. */
function retried(codes: readonly ErrorCode[]) {
  const waitsMs: number[] = [];
  const texts: (string | undefined)[] = [];
  let calls = 0;
  const result = retryDatabase(() => {
    const code = codes[calls++];
    return code === undefined
      ? Promise.resolve("done")
      : Promise.reject(new DeliveryError(code, "No answer."));
  }, (milliseconds, reason) => {
    waitsMs.push(milliseconds);
    texts.push(reason);
    return Promise.resolve();
  });
  return { result, waitsMs, texts };
}

Deno.test("retryDatabase() retries while the database is unavailable or a record locked", async () => {
  const { result, waitsMs, texts } = retried([
    "database_unavailable",
    "record_locked",
  ]);
  assertEquals(await result, "done");
  assertEquals(waitsMs, [500, 1_000]);
  assertEquals(texts, [
    "No answer. Retrying in 0.5 s.",
    "No answer. Retrying in 1 s.",
  ]);
});

Deno.test("retryDatabase() gives up after six tries", async () => {
  const { result, waitsMs } = retried(Array(6).fill("record_locked"));
  await assertRejects(() => result, DeliveryError, "No answer.");
  assertEquals(waitsMs, [500, 1_000, 2_000, 4_000, 8_000]);
});

Deno.test("retryDatabase() does not retry an error that stays", async () => {
  const { result, waitsMs } = retried(["apply_failed"]);
  await assertRejects(() => result, DeliveryError, "No answer.");
  assertEquals(waitsMs, []);
});
