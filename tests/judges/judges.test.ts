/**
 * The providers' own packages as judges: they accept what our code signs and builds, and
 * the receiver's verification accepts what they sign.
 */
import { assertEquals, assertRejects } from "@std/assert";
import { Paddle } from "@paddle/paddle-node-sdk";
import { webhooks as polar } from "@polar-sh/sdk/2026-10";
import DodoPayments from "dodopayments";
import { Webhook } from "standardwebhooks";
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
import { readProviders } from "../../supabase/functions/billing-webhook/signatures/providers.ts";
import { verifyDelivery } from "../../supabase/functions/billing-webhook/verify_delivery.ts";

const SECRETS = {
  paddle: ["pdl_ntfset_01hv8example_0123456789abcdef"],
  // Of the older kind, with both prefixes; then of the newer one.
  polar: [
    "polar_whs_0123456789abcdefghijkl",
    "whsec_bm90LWJhc2U2NC1zaW5jZS1pdC1pcy1vbGQ",
    "whsec_c2VjcmV0LW9mLXRoZS1uZXdlci1raW5kLg==",
  ],
  dodo: ["whsec_c2VjcmV0LW9mLWRvZG8tcGF5bWVudHM="],
};

const JUDGES = {
  paddle: async (
    body: string,
    headers: Record<string, string>,
    secret: string,
  ) => {
    const { webhooks } = new Paddle("apikey_example");
    const read = await webhooks.unmarshal(
      body,
      secret,
      headers["paddle-signature"]!,
    );
    return read.eventType;
  },
  polar: async (
    body: string,
    headers: Record<string, string>,
    secret: string,
  ) => {
    const { type } = await polar.validateEvent(body, headers, secret);
    return type;
  },
  dodo: (body: string, headers: Record<string, string>, secret: string) =>
    Promise.resolve().then(() =>
      new DodoPayments({ bearerToken: "x", webhookKey: secret })
        .webhooks.unwrap(body, { headers }).type
    ),
} as const;

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
        const { format, deliveryId } = await verified(body, headers, settings);
        assertEquals(format, FORMATS[name]);
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

Deno.test("the receiver accepts what Standard Webhooks' package signs, with either kind of Polar's keys", async () => {
  const sent = new Date();
  const text = (secret: string) => btoa(secret);
  for (
    const [name, secret, key] of [
      ["dodo", SECRETS.dodo[0]!, SECRETS.dodo[0]!],
      ...SECRETS.polar.map((secret) =>
        ["polar", secret, text(secret)] as const
      ),
      ["polar", SECRETS.polar[2]!, SECRETS.polar[2]!],
    ] as const
  ) {
    const settings = await settingsOf(name, secret);
    const body = JSON.stringify(providerEvent(name, "subscription.updated"));
    await verified(body, {
      "webhook-id": "msg_1",
      "webhook-timestamp": `${Math.floor(sent.getTime() / 1000)}`,
      "webhook-signature": new Webhook(key).sign("msg_1", sent, body),
    }, settings);
  }
});
