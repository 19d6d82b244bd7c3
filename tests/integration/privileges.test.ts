import { assertEquals } from "@std/assert";
import { localKeys } from "../../scripts/local_stack/keys.ts";
import { startPostgrest } from "../support/stacks.ts";
import { setting } from "../support/test_environment.ts";

const { serviceRole } = await localKeys();

Deno.test("PostgREST lets no page of another origin use the key that everybody knows", async () => {
  await using postgrest = await startPostgrest(setting("TEST_DATABASE_URL"));
  const url = `${postgrest.url}/billing_subscriptions`;
  // A browser asks for this, as the Fetch standard says under "CORS protocol".
  const asked = {
    Origin: "https://page.example",
    "Access-Control-Request-Method": "GET",
    "Access-Control-Request-Headers": "authorization",
  };
  const preflight = await fetch(url, { method: "OPTIONS", headers: asked });
  await preflight.body?.cancel();
  assertEquals(preflight.headers.get("access-control-allow-headers"), null);

  const headers = { ...asked, authorization: `Bearer ${serviceRole}` };
  const answer = await fetch(url, { headers });
  await answer.body?.cancel();
  assertEquals(answer.headers.get("access-control-allow-origin"), null);
});
