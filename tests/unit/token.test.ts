import { assertEquals } from "@std/assert";
import { runCommand } from "../support/run_script.ts";

Deno.test("token refuses what is no user, and is for the local stack only", async () => {
  const { code, err } = await runCommand("token", ["--user=service_role"]);
  assertEquals([code, err.includes("--user takes a UUID")], [2, true]);

  const user = "--user=11111111-1111-4111-8111-111111111111";
  assertEquals((await runCommand("token", [user])).code, 1);
});
