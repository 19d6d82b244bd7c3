import { assertEquals, assertStringIncludes } from "@std/assert";
import { announcement } from "../../../scripts/local_stack/announcement.ts";
import { LOCAL_SIGNING_SECRETS } from "../../../scripts/common/environment.ts";
import { localKeys } from "../../../scripts/local_stack/keys.ts";

const keys = await localKeys();

function announced(env: Record<string, string>, isDefault = true): string {
  const api = `http://127.0.0.1:${isDefault ? 54321 : 57021}`;
  const urls = {
    api,
    rest: api,
    webhook: api,
    worker: api,
    webhookProcess: api,
  };
  return announcement({ urls, keys, dbUrl: "postgresql://127.0.0.1" }, {
    env: { ...LOCAL_SIGNING_SECRETS, ...env },
    dataDir: "/tmp/my data",
    isDefault,
    run: "deno task",
  });
}

Deno.test("announcement() says where the stack is if other commands cannot find it", () => {
  const text = announced({}, false);
  assertStringIncludes(text, "console --project-url http://127.0.0.1:57021\n");
  assertStringIncludes(text, "deno task reset --data '/tmp/my data'");
});

Deno.test("announcement() prints the local secrets, and only names the user's", () => {
  const text = announced({
    PROVIDER_A_SIGNING_SECRET: "whsec_MINE",
    NOTIFICATION_URL: "https://MINE:MINE@hooks.example/services/MINE?key=MINE",
  });
  assertEquals(text.includes("MINE"), false, text);
  assertStringIncludes(text, "from PROVIDER_A_SIGNING_SECRET");
  assertStringIncludes(text, LOCAL_SIGNING_SECRETS.PROVIDER_B_SIGNING_SECRET);
  assertStringIncludes(text, "sent to hooks.example");
});
