import { assertEquals, assertStringIncludes } from "@std/assert";
import { announcement } from "../../../scripts/local_stack/announcement.ts";
import { LOCAL_SIGNING_SECRETS } from "../../../scripts/common/environment.ts";
import { localKeys } from "../../../scripts/common/keys.ts";

const keys = await localKeys();

function announced(
  env: Record<string, string>,
  { port = 54321, isDefault = true, dataDir = "/tmp/data" } = {},
): string {
  const api = `http://127.0.0.1:${port}`;
  return announcement({
    urls: {
      api,
      rest: `${api}/rest/v1`,
      webhook: `${api}/functions/v1/billing-webhook`,
      worker: `${api}/functions/v1/billing-worker`,
      webhookProcess: "http://127.0.0.1:54331",
      workerProcess: "http://127.0.0.1:54332",
    },
    keys,
    dbUrl: "postgresql://postgres:postgres@127.0.0.1:54322/postgres",
  }, {
    env: { ...LOCAL_SIGNING_SECRETS, ...env },
    dataDir,
    isDefault,
    run: "deno task",
  });
}

Deno.test("announcement() prints the local secrets", () => {
  const text = announced({});
  for (const secret of Object.values(LOCAL_SIGNING_SECRETS)) {
    assertStringIncludes(text, secret);
  }
});

Deno.test("announcement() names the console, with the URL if it cannot find the stack", () => {
  assertStringIncludes(announced({}), "\n  deno task console\n");
  assertStringIncludes(
    announced({}, { port: 57021, isDefault: false }),
    "\n  deno task console --project-url http://127.0.0.1:57021\n",
  );
});

Deno.test("announcement() names the command that deletes the data as a shell reads it", () => {
  const text = announced({}, {
    port: 57021,
    isDefault: false,
    dataDir: "/tmp/my data",
  });
  assertStringIncludes(text, "deno task reset --data '/tmp/my data'");
});

Deno.test("announcement() fits in 80 columns", () => {
  const wide = announced({}).split("\n").filter((line) => line.length > 80);
  assertEquals(wide, []);
});

Deno.test("announcement() names the user's secrets without printing them", () => {
  const text = announced({
    PROVIDER_A_SIGNING_SECRET: "whsec_MINE",
    PROVIDER_B_SIGNING_SECRET:
      `${LOCAL_SIGNING_SECRETS.PROVIDER_B_SIGNING_SECRET},MINEtoo`,
    RESEND_API_KEY: "re_MINE",
    NOTIFICATION_URL: "https://MINE:MINE@hooks.example/services/MINE?key=MINE",
    NOTIFICATION_SIGNING_SECRET: "whsec_MINE",
  });
  assertEquals(text.includes("MINE"), false, text);
  assertStringIncludes(text, "from PROVIDER_A_SIGNING_SECRET");
  assertStringIncludes(text, "sent to hooks.example");
});
