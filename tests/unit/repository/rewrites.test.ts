/**
 * The rewrites of docs/rewrites.md lead to the receiver. tests/nginx runs the one
 * for nginx, which the gate does not have.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { readPage } from "../../support/docs.ts";
import { readConfig } from "../../../supabase/functions/_shared/billing/config.ts";
import { routeOf } from "../../../scripts/local_stack/gateway.ts";

const PATH = "/api/billing/webhook";

Deno.test("vercel.json and nginx.conf rewrite the same path to the same function", () => {
  const { rewrites: [rewrite] } = JSON.parse(
    readPage("docs/rewrites/vercel.json"),
  );
  const nginx = readPage("docs/rewrites/nginx.conf");
  const directive = (name: string) =>
    new RegExp(`^ *${name} (.+);$`, "m").exec(nginx)?.[1] ?? "";
  const host = directive("set \\$billing_host");
  const destination = directive("proxy_pass").replace("$billing_host", host);
  assertEquals(rewrite, { source: PATH, destination });
  assert(nginx.includes(`location = ${PATH} {`));
  const { pathname, search } = new URL(destination.replaceAll(/[<>]/g, ""));
  assertEquals(routeOf(pathname)?.to, "webhook");
  assertEquals(search, "?forceFunctionRegion=region");
  const { maxBodyBytes } = readConfig({
    SUPABASE_URL: "http://x",
    SUPABASE_SERVICE_ROLE_KEY: "x",
  });
  assertEquals(directive("client_max_body_size"), `${maxBodyBytes}`);
});
