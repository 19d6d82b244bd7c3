/** What the pages show does what they say when it is copied. */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { createCommand } from "../../../scripts/common/create_command.ts";
import { REPOSITORY } from "../../../scripts/common/how_started.ts";
import { routeOf } from "../../../scripts/local_stack/gateway.ts";
import { readConfig } from "../../../supabase/functions/_shared/billing/config.ts";
import { readPage, writeDocCode } from "../../support/docs.ts";

Deno.test("the TypeScript in the pages type-checks", async () => {
  await using opened = new AsyncDisposableStack();
  const files: string[] = [];
  for (const { name } of Deno.readDirSync(join(REPOSITORY, "docs"))) {
    if (!name.endsWith(".md")) continue;
    files.push(...opened.use(await writeDocCode(name)).files);
  }
  assert(files.length >= 3, `${files.length} blocks`);
  const config = join(REPOSITORY, "deno.json");
  const { success, stderr } = await createCommand(Deno.execPath(), {
    args: ["check", "--quiet", "--config", config, "--frozen", ...files],
    env: { NO_COLOR: "1" },
  }).output();
  assertEquals([success, new TextDecoder().decode(stderr)], [true, ""]);
});

Deno.test("vercel.json and nginx.conf rewrite the same path to the same function", () => {
  const vercel = readPage("docs/rewrites/vercel.json");
  const nginx = readPage("docs/rewrites/nginx.conf");
  const directive = (name: string) =>
    new RegExp(`^ *${name} (.+);$`, "m").exec(nginx)?.[1] ?? "";
  const host = directive("set \\$billing_host");
  const destination = directive("proxy_pass").replace("$billing_host", host);
  const source = "/api/billing/webhook";
  assertEquals(JSON.parse(vercel).rewrites, [{ source, destination }]);
  assert(nginx.includes(`location = ${source} {`));
  const { pathname, search } = new URL(destination.replaceAll(/[<>]/g, ""));
  assertEquals(routeOf(pathname)?.to, "webhook");
  assertEquals(search, "?forceFunctionRegion=region");
  const { maxBodyBytes } = readConfig({
    SUPABASE_URL: "http://x",
    SUPABASE_SERVICE_ROLE_KEY: "x",
  });
  assertEquals(directive("client_max_body_size"), `${maxBodyBytes}`);
});
