import { assertEquals } from "@std/assert";
import {
  isValidToken,
  localKeys,
  signToken,
} from "../../../scripts/local_stack/keys.ts";

const NOW = 1_800_000_000;

Deno.test("localKeys() returns the tokens of every local stack", async () => {
  const keys = await localKeys();
  assertEquals(
    keys.anon,
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJzdXBhYmFzZS1kZW1vIiwicm9sZSI6ImFub24iLCJleHAiOjE5ODM4MTI5OTZ9.CRXP1A7WOeoJeXxjNni43kdQwgnWNReilDMblYTn_I0",
  );
  assertEquals(
    keys.serviceRole,
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJzdXBhYmFzZS1kZW1vIiwicm9sZSI6InNlcnZpY2Vfcm9sZSIsImV4cCI6MTk4MzgxMjk5Nn0.EGIM96RAZx35lJzdJsyH-qQwv8Hdp7fsn3W0YpN81IU",
  );
});

Deno.test("isValidToken() accepts only signed tokens that have not expired", async () => {
  const good = await signToken({ role: "anon", exp: NOW + 1 });
  const [header, , signature] = good.split(".");
  const none = btoa(`{"alg":"none"}`).replaceAll("=", "");
  const other = btoa(`{"role":"service_role"}`).replaceAll("=", "");
  assertEquals(await isValidToken(good, NOW), true);
  assertEquals(await isValidToken(good, NOW + 1), false);
  assertEquals(
    await isValidToken(await signToken({ role: "anon" }), NOW),
    true,
  );
  for (
    const bad of [
      "",
      "a.b.c",
      `${good}.`,
      `${good}x`,
      `${header}.${other}.${signature}`,
      `${none}.${other}.`,
      `${none}.${other}.${signature}`,
    ]
  ) {
    assertEquals(await isValidToken(bad, NOW), false, bad);
  }
});
