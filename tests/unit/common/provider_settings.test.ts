import { assertEquals, assertThrows } from "@std/assert";
import { LOCAL_SIGNING_SECRETS } from "../../../scripts/common/environment.ts";
import { localKeys } from "../../../scripts/common/keys.ts";
import { signatureHeaders } from "../../../scripts/common/sign.ts";
import { verifyDelivery } from "../../../supabase/functions/billing-webhook/verify_delivery.ts";
import { readProviders } from "../../../supabase/functions/billing-webhook/providers.ts";
import { functionEnvironment } from "../../../scripts/common/environment.ts";
import { providerSettings } from "../../../scripts/common/provider_settings.ts";

Deno.test("providerSettings() has each provider's defaults", () => {
  assertEquals(providerSettings(LOCAL_SIGNING_SECRETS, "a"), {
    scheme: "stripe",
    header: "provider-a-signature",
    secret: LOCAL_SIGNING_SECRETS.PROVIDER_A_SIGNING_SECRET,
  });
  assertEquals(providerSettings(LOCAL_SIGNING_SECRETS, "b"), {
    scheme: "hmac-sha256-hex",
    header: "provider-b-signature",
    secret: LOCAL_SIGNING_SECRETS.PROVIDER_B_SIGNING_SECRET,
  });
});

Deno.test("providerSettings() takes header, scheme and the first secret from the environment", () => {
  assertEquals(
    providerSettings({
      PROVIDER_A_SIGNING_SECRET: "other",
      PROVIDER_B_SIGNING_SECRET: "new,old",
      PROVIDER_B_SIGNATURE_HEADER: "stripe-signature",
      PROVIDER_B_SIGNATURE_SCHEME: "stripe",
    }, "b"),
    { scheme: "stripe", header: "stripe-signature", secret: "new" },
  );
});

Deno.test("providerSettings() takes an empty header or scheme for none", () => {
  const { scheme, header } = providerSettings({
    PROVIDER_B_SIGNING_SECRET: "x",
    PROVIDER_B_SIGNATURE_HEADER: "",
    PROVIDER_B_SIGNATURE_SCHEME: "",
  }, "b");
  assertEquals([scheme, header], ["hmac-sha256-hex", "provider-b-signature"]);
});

Deno.test("providerSettings() has a header of its own for standard-webhooks", () => {
  const env = {
    PROVIDER_A_SIGNING_SECRET: "whsec_c2VjcmV0",
    PROVIDER_A_SIGNATURE_SCHEME: "standard-webhooks",
  };
  assertEquals(providerSettings(env, "a").header, "webhook-signature");
  assertEquals(
    providerSettings({
      ...env,
      PROVIDER_A_SIGNATURE_HEADER: "svix-signature",
    }, "a").header,
    "svix-signature",
  );
});

Deno.test("providerSettings() names the setting that is wrong", () => {
  for (const secret of ["", " ", ",old"]) {
    assertThrows(
      () => providerSettings({ PROVIDER_A_SIGNING_SECRET: secret }, "a"),
      Error,
      "Cannot sign: PROVIDER_A_SIGNING_SECRET is empty.",
    );
  }
  assertThrows(
    () => providerSettings({ PROVIDER_B_SIGNATURE_SCHEME: "md5" }, "b"),
    Error,
    "PROVIDER_B_SIGNATURE_SCHEME must be one of stripe, hmac-sha256-hex",
  );
});

for (const provider of ["a", "b"] as const) {
  for (
    const scheme of ["stripe", "hmac-sha256-hex", "standard-webhooks"] as const
  ) {
    Deno.test(`with ${scheme} for provider ${provider} and nothing else set, the local receiver takes what trigger signs`, async () => {
      const env = functionEnvironment({
        [`PROVIDER_${provider.toUpperCase()}_SIGNATURE_SCHEME`]: scheme,
      });
      const headers = await signatureHeaders({
        ...providerSettings(env, provider),
        body: "{}",
      });
      const { secret } = await localKeys();
      const verified = await verifyDelivery({
        headers: new Headers(headers),
        body: new TextEncoder().encode("{}"),
      }, {
        providers: await readProviders({
          ...env,
          SUPABASE_SECRET_KEYS: JSON.stringify({ default: secret }),
        }),
        nowSeconds: Date.now() / 1000,
        toleranceSeconds: 300,
      });
      assertEquals(verified.provider, provider);
    });
  }
}
