/** The providers' own packages as judges of what our code signs and verifies. */
import { assertEquals, assertRejects } from "@std/assert";
import { Paddle } from "@paddle/paddle-node-sdk";
import { webhooks as polar } from "@polar-sh/sdk/2026-10";
import DodoPayments from "dodopayments";
import {
  providerSettings,
  signatureHeaders,
} from "../../scripts/common/sign.ts";
import {
  type Provider,
  providerEvent,
  PROVIDERS,
} from "../../scripts/events/provider_events.ts";
import { FORMATS } from "../../supabase/functions/_shared/billing/events/formats.ts";
import { readProviders } from "../../supabase/functions/billing-webhook/signatures/signature_providers.ts";
import { verifyDelivery } from "../../supabase/functions/billing-webhook/verify_delivery.ts";

const SECRETS = {
  paddle: ["pdl_ntfset_01hv8example_0123456789abcdef"],
  // The older kind, with both prefixes; then the newer one.
  polar: [
    "polar_whs_0123456789abcdefghijkl",
    "whsec_bm90LWJhc2U2NC1zaW5jZS1pdC1pcy1vbGQ",
    "whsec_c2VjcmV0LW9mLXRoZS1uZXdlci1raW5kLg==",
  ],
  dodo: ["whsec_c2VjcmV0LW9mLWRvZG8tcGF5bWVudHM="],
};

type Judge = (
  body: string,
  headers: Record<string, string>,
  secret: string,
) => Promise<string>;

const JUDGES: Record<keyof typeof SECRETS, Judge> = {
  async paddle(body, headers, secret) {
    const { webhooks } = new Paddle("apikey_example");
    const signature = headers["paddle-signature"]!;
    const { eventType } = await webhooks.unmarshal(body, secret, signature);
    return eventType;
  },
  async polar(body, headers, secret) {
    const { type } = await polar.validateEvent(body, headers, secret);
    return type;
  },
  async dodo(body, headers, webhookKey) {
    const { webhooks } = new DodoPayments({ bearerToken: "x", webhookKey });
    const { type } = await webhooks.unwrap(body, { headers });
    return type;
  },
};

async function settingsOf(provider: Provider, secret: string) {
  const env = {
    PROVIDER_A_FORMAT: provider,
    PROVIDER_A_SIGNING_SECRET: secret,
    PROVIDER_B_SIGNING_SECRET: "the-secret-of-provider-b",
  };
  return {
    ...providerSettings(env, "a"),
    providers: await readProviders(env),
  };
}

async function verified(
  body: string,
  headers: HeadersInit,
  { providers }: Awaited<ReturnType<typeof settingsOf>>,
) {
  const bytes = new TextEncoder().encode(body);
  return await verifyDelivery({ headers: new Headers(headers), body: bytes }, {
    providers,
    nowSeconds: Date.now() / 1000,
    toleranceSeconds: 300,
  });
}

for (const [provider, judge] of Object.entries(JUDGES)) {
  const name = provider as keyof typeof JUDGES;
  Deno.test(`${name}'s package accepts each of our events, and the receiver does`, async () => {
    for (const secret of SECRETS[name]) {
      const settings = await settingsOf(name, secret);
      for (const type of PROVIDERS[name].types) {
        const body = JSON.stringify(providerEvent(name, type));
        const headers = signatureHeaders({ ...settings, body });
        assertEquals(await judge(body, headers, secret), type);

        const { reading, deliveryId } = await verified(body, headers, settings);
        assertEquals(reading.format, FORMATS[name]);
        assertEquals(deliveryId, headers["webhook-id"]);

        const forged = {
          ...headers,
          [settings.header]: headers[settings.header]!.replace(/.$/, "A"),
        };
        await assertRejects(() => judge(`${body} `, forged, secret));
        await assertRejects(() => verified(`${body} `, headers, settings));
      }
    }
  });
}
