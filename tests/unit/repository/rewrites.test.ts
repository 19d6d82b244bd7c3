/**
 * The rewrites that we ship agree with the receiver and with each other.
 * tests/nginx runs the one for nginx.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { readConfig } from "../../../supabase/functions/_shared/billing/config.ts";
import { readDelivery } from "../../../supabase/functions/billing-webhook/read_delivery.ts";
import { routeOf } from "../../../scripts/local_stack/gateway.ts";

const REWRITES = new URL("../../../docs/rewrites/", import.meta.url);
const nginx = await Deno.readTextFile(new URL("nginx.conf", REWRITES));
const vercel = JSON.parse(
  await Deno.readTextFile(new URL("vercel.json", REWRITES)),
);

const PATH = "/api/billing/webhook";
const DESTINATION =
  "https://<project-ref>.supabase.co/functions/v1/billing-webhook?forceFunctionRegion=<region>";

/** A directive's one value. */
function directive(name: string): string | undefined {
  return new RegExp(`^ *${name} (.+);$`, "m").exec(nginx)?.[1];
}

Deno.test("vercel.json rewrites the path to the project, in the region of the database", () => {
  assertEquals(vercel, {
    $schema: "https://openapi.vercel.sh/vercel.json",
    rewrites: [{ source: PATH, destination: DESTINATION }],
  });
});

Deno.test("nginx.conf rewrites to the same place as vercel.json", () => {
  assert(nginx.includes(`location = ${PATH} {`));
  const host = directive("set \\$billing_host");
  const destination = directive("proxy_pass")?.replace(
    "$billing_host",
    `${host}`,
  );
  assertEquals(destination, DESTINATION);
});

Deno.test("the receiver is served at the rewrites' destination", async () => {
  const { pathname } = new URL(DESTINATION.replaceAll(/[<>]/g, ""));
  const route = routeOf(pathname);
  assertEquals(route?.to, "webhook");
  const request = new Request(`https://x${route!.path}`, {
    method: "POST",
    body: "{}",
  });
  const delivery = await readDelivery(request, {
    maxBytes: 100,
    timeLimitMs: 1_000,
  });
  assertEquals(delivery.body.length, 2);
});

Deno.test("nginx.conf refuses the same bodies as the receiver, and keeps none in a file", () => {
  const { maxBodyBytes } = readConfig({
    SUPABASE_URL: "http://x",
    SUPABASE_SERVICE_ROLE_KEY: "x",
  });
  assertEquals(directive("client_max_body_size"), `${maxBodyBytes}`);
  assertEquals(directive("client_body_buffer_size"), `${maxBodyBytes}`);
});
