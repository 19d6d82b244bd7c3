import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { Webhook } from "standardwebhooks";
import Stripe from "stripe";
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
import { readProviders } from "../../../supabase/functions/billing-webhook/providers.ts";
import { verifyDelivery } from "../../../supabase/functions/billing-webhook/verify_delivery.ts";
import { localKeys } from "../../../scripts/local_stack/keys.ts";

const A = "PROVIDER_A_SIGNING_SECRET";
const B = "PROVIDER_B_SIGNING_SECRET";
const LOCAL = LOCAL_SIGNING_SECRETS;

Deno.test("functionEnvironment() prefers the environment, then the file, then the local secrets", () => {
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
    assertEquals(functionEnvironment(command!, file), expected);
  }
});

Deno.test("readEnvFile() reads quotes, comments and line ends of both kinds", async () => {
  assertEquals(await readEnvFile("/no/such/folder/.env"), {});
  const file = await Deno.makeTempFile();
  const text = `# note\nA=1 # one\r\nB="x # y"\nC=\nexport D='k=v'\n`;
  await Deno.writeTextFile(file, text);
  const read = await readEnvFile(file);
  assertEquals(read, { A: "1", B: "x # y", C: "", D: "k=v" });
  await Deno.remove(file);
});

Deno.test("providerSettings() takes scheme, header and the first secret from the settings", () => {
  const standard = { PROVIDER_A_SIGNATURE_SCHEME: "standard-webhooks" };
  for (
    const [provider, env, scheme, header, secret] of [
      ["a", {}, "stripe", "provider-a-signature", LOCAL[A]],
      ["b", {}, "hmac-sha256-hex", "provider-b-signature", LOCAL[B]],
      [
        "b",
        {
          [A]: "other",
          [B]: "new,old",
          PROVIDER_B_SIGNATURE_HEADER: "stripe-signature",
          PROVIDER_B_SIGNATURE_SCHEME: "stripe",
        },
        "stripe",
        "stripe-signature",
        "new",
      ],
      [
        "b",
        { PROVIDER_B_SIGNATURE_HEADER: "", PROVIDER_B_SIGNATURE_SCHEME: "" },
        "hmac-sha256-hex",
        "provider-b-signature",
        LOCAL[B],
      ],
      ["a", standard, "standard-webhooks", "webhook-signature", LOCAL[A]],
      [
        "a",
        { ...standard, PROVIDER_A_SIGNATURE_HEADER: "svix-signature" },
        "standard-webhooks",
        "svix-signature",
        LOCAL[A],
      ],
    ] as const
  ) {
    const settings = providerSettings({ ...LOCAL, ...env }, provider);
    assertEquals(settings, { scheme, header, secret });
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
    "Cannot sign: PROVIDER_B_SIGNATURE_SCHEME must be one of stripe, hmac-sha256-hex, standard-webhooks.",
  );
});

for (const provider of ["a", "b"] as const) {
  for (const scheme of ["stripe", "hmac-sha256-hex", "standard-webhooks"]) {
    Deno.test(`with ${scheme} for provider ${provider} and nothing else set, the local receiver takes what trigger signs`, async () => {
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
      assertEquals(verified.provider, provider);
    });
  }
}

const BODY = '{"id":"evt_1","text":"déjà vu €"}';
const BASE64_SECRET = `whsec_${btoa("a secret of some length")}`;
const STANDARD = { scheme: "standard-webhooks", secret: BASE64_SECRET };

Deno.test("signatureHeaders() makes what Stripe's package accepts", async () => {
  const headers = signatureHeaders({
    scheme: "stripe",
    header: "stripe-signature",
    secret: "whsec_1",
    body: BODY,
  });
  assertEquals(Object.keys(headers), ["stripe-signature"]);
  const verify = (body: string, secret: string) =>
    Stripe.webhooks.constructEventAsync(
      body,
      headers["stripe-signature"] ?? "",
      secret,
    );
  assertEquals((await verify(BODY, "whsec_1")).id, "evt_1");
  await assertRejects(() => verify(BODY, "whsec_2"));
  await assertRejects(() => verify(`${BODY} `, "whsec_1"));
});

Deno.test("signatureHeaders() makes what the Standard Webhooks package accepts", () => {
  const header = "webhook-signature";
  const headers = signatureHeaders({ ...STANDARD, header, body: BODY });
  const webhook = new Webhook(BASE64_SECRET);
  assertEquals(webhook.verify(BODY, headers), JSON.parse(BODY));
  assertThrows(() => webhook.verify(`${BODY} `, headers));
});

Deno.test("signatureHeaders() makes hex HMAC-SHA256 of the body", () => {
  // RFC 4231, test case 2.
  assertEquals(
    signatureHeaders({
      scheme: "hmac-sha256-hex",
      header: "provider-b-signature",
      secret: "Jefe",
      body: "what do ya want for nothing?",
    }),
    {
      "provider-b-signature":
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
    },
  );
});

Deno.test("signatureHeaders() shares the header's prefix in Standard Webhooks", () => {
  const { "svix-signature": signature, ...others } = signatureHeaders({
    ...STANDARD,
    header: "svix-signature",
    body: BODY,
    timestamp: 1_800_000_000,
    id: "msg_1",
  });
  assert(signature);
  assertEquals(others, { "svix-id": "msg_1", "svix-timestamp": "1800000000" });
});

Deno.test("signatureHeaders() says which secrets and headers fit Standard Webhooks", () => {
  const sign = (header: string, secret: string) => () =>
    signatureHeaders({ ...STANDARD, header, secret, body: BODY });
  for (const secret of ["not base64!", "whsec_", "whsec_abc", "whsec_a=bc"]) {
    const message = "Cannot sign: the secret";
    assertThrows(sign("webhook-signature", secret), Error, message);
  }
  const message = "must end with -signature";
  assertThrows(sign("provider-sig", BASE64_SECRET), Error, message);
});
