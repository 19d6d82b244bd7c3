import { assertEquals, assertThrows } from "@std/assert";
import {
  type Environment,
  functionEnvironment,
  LOCAL_SIGNING_SECRETS,
  readEnvFile,
} from "../../../scripts/common/environment.ts";
import {
  providerSettings,
  signatureHeaders,
} from "../../../scripts/common/sign.ts";
import {
  readProviders,
  SCHEMES,
} from "../../../supabase/functions/billing-webhook/signatures/signature_providers.ts";
import { verifyDelivery } from "../../../supabase/functions/billing-webhook/verify_delivery.ts";
import { localKeys } from "../../../scripts/local_stack/keys.ts";

const A = "PROVIDER_A_SIGNING_SECRET";
const B = "PROVIDER_B_SIGNING_SECRET";
const LOCAL = LOCAL_SIGNING_SECRETS;

Deno.test("functionEnvironment() prefers the environment, then the file", async () => {
  assertEquals(await readEnvFile("/no/such/folder/.env"), {});
  const file = { [A]: "file", [B]: "file", C: "1" };
  const cases: Environment[][] = [
    [{}, {}, LOCAL],
    [{ [A]: "command" }, file, { ...file, [A]: "command" }],
    // A secret that is set to nothing stays so.
    [{ [A]: "" }, { [B]: "" }, { [A]: "", [B]: "" }],
    // These are the platform's.
    [{ SUPABASE_URL: "https://x.test" }, { SUPABASE_DB_URL: "x" }, LOCAL],
  ];
  for (const [command, file, expected] of cases) {
    assertEquals(functionEnvironment(command!, file), {
      ...LOCAL,
      ...expected,
    });
  }
});

Deno.test("providerSettings() takes scheme, header and the first secret from the settings", () => {
  const scheme = "PROVIDER_B_SIGNATURE_SCHEME";
  const header = "PROVIDER_B_SIGNATURE_HEADER";
  const standard = { [scheme]: "standard-webhooks" };
  const cases: [Environment, string, string][] = [
    [{}, "hmac-sha256-hex", "provider-b-signature"],
    [{ [header]: "", [scheme]: "" }, "hmac-sha256-hex", "provider-b-signature"],
    [{ [header]: "own", [scheme]: "stripe" }, "stripe", "own"],
    [standard, "standard-webhooks", "webhook-signature"],
    [{ ...standard, [header]: "own" }, "standard-webhooks", "own"],
  ];
  for (const [env, scheme, header] of cases) {
    const settings = providerSettings(
      { ...env, [A]: "other", [B]: "1,2" },
      "b",
    );
    assertEquals(settings, { scheme, header, secret: "1" });
  }
});

Deno.test("providerSettings() names the setting that is wrong", () => {
  for (const secret of ["", " ", ",old"]) {
    const read = () => providerSettings({ [A]: secret }, "a");
    assertThrows(read, Error, `Cannot sign: ${A} is empty.`);
  }
  assertThrows(
    () => providerSettings({ PROVIDER_B_SIGNATURE_SCHEME: "md5" }, "b"),
    Error,
    "Cannot sign: PROVIDER_B_SIGNATURE_SCHEME must be one of stripe, hmac-sha256-hex, ",
  );
});

Deno.test("the local receiver takes what trigger signs, with any scheme", async () => {
  for (const scheme of SCHEMES.keys()) {
    for (const provider of ["a", "b"] as const) {
      const env = functionEnvironment({
        [`PROVIDER_${provider.toUpperCase()}_SIGNATURE_SCHEME`]: scheme,
      });
      // Not UTF-8: the bytes are signed.
      const body = Uint8Array.of(0x7b, 0xff, 0x7d);

      const settings = providerSettings(env, provider);
      const headers = new Headers(signatureHeaders({ ...settings, body }));
      const { secret } = await localKeys();
      const keys = JSON.stringify({ default: secret });

      const verified = await verifyDelivery({ headers, body }, {
        providers: await readProviders({ ...env, SUPABASE_SECRET_KEYS: keys }),
        nowSeconds: Date.now() / 1000,
        toleranceSeconds: 300,
      });
      assertEquals(verified.provider, provider, scheme);
    }
  }
});

Deno.test("signatureHeaders() shares the header's prefix in Standard Webhooks", () => {
  const standard = {
    scheme: "standard-webhooks",
    header: "svix-signature",
    body: "{}",
    timestamp: 1_800_000_000,
    id: "msg_1",
    secret: "whsec_c2VjcmV0",
  };
  const { "svix-signature": _, ...others } = signatureHeaders(standard);
  assertEquals(others, { "svix-id": "msg_1", "svix-timestamp": "1800000000" });
});
