/**
 * Verification of one delivery of about 3 kB: this receiver's against that of
 * the `stripe` package with its SubtleCrypto provider, and of
 * `standardwebhooks`, each in its own scheme.
 *
 * @module
 */
import { Webhook } from "standardwebhooks";
import Stripe from "stripe";
import { signatureHeaders } from "../scripts/common/sign.ts";
import { readProviders } from "../supabase/functions/billing-webhook/providers.ts";
import { verifyDelivery } from "../supabase/functions/billing-webhook/verify_delivery.ts";
import { subscriptionEvent } from "../scripts/events/subscription_event.ts";
import { RECEIVER } from "./names.ts";
import { type Spread, spread } from "./statistics.ts";

const ROUNDS = 7;
const TIMES = 4_000;

/**
 * How many are under way at once. SubtleCrypto hands the work to another
 * thread: of one alone, most of the time is that thread waking up.
 */
export const AT_ONCE = { "one by one": 1, "16 at once": 16 };

/** This receiver's verification in Stripe's scheme, as the results name it. */
export const OWN = `${RECEIVER}, stripe scheme`;

/** That of the `stripe` package. */
export const OF_STRIPE = "stripe, constructEventAsync";

const STRIPE_SECRET = "whsec_benchmark_0123456789abcdef";
const STANDARD_SECRET = "whsec_YmVuY2htYXJrLXNlY3JldC0wMTIzNDU2Nzg5";

/** Microseconds per verification, by who does it and how. */
export async function measureVerification(): Promise<Record<string, Spread>> {
  const body = JSON.stringify(
    subscriptionEvent("customer.subscription.created"),
  );
  const bytes = new TextEncoder().encode(body);
  const nowSeconds = Date.now() / 1000;
  const providers = await readProviders({
    PROVIDER_A_SIGNING_SECRET: STRIPE_SECRET,
    PROVIDER_B_SIGNING_SECRET: STANDARD_SECRET,
    PROVIDER_B_SIGNATURE_SCHEME: "standard-webhooks",
  });
  const stripeHeaders = await signatureHeaders({
    scheme: "stripe",
    header: "provider-a-signature",
    secret: STRIPE_SECRET,
    body,
  });
  const standardHeaders = await signatureHeaders({
    scheme: "standard-webhooks",
    header: "webhook-signature",
    secret: STANDARD_SECRET,
    body,
  });
  const subtle = Stripe.createSubtleCryptoProvider();
  const webhook = new Webhook(STANDARD_SECRET);
  const ours = (headers: Headers) => () =>
    verifyDelivery({ headers, body: bytes }, {
      providers,
      nowSeconds,
      toleranceSeconds: 300,
    });

  const contestants: Record<string, () => unknown> = {
    [OWN]: ours(new Headers(stripeHeaders)),
    [OF_STRIPE]: () =>
      Stripe.webhooks.constructEventAsync(
        body,
        stripeHeaders["provider-a-signature"] ?? "",
        STRIPE_SECRET,
        300,
        subtle,
      ),
    [`${RECEIVER}, standard-webhooks scheme`]: ours(
      new Headers(standardHeaders),
    ),
    "standardwebhooks": () => webhook.verify(body, standardHeaders),
  };
  const rounds = new Map<string, number[]>();
  for (let round = -1; round < ROUNDS; round++) {
    for (const [how, atOnce] of Object.entries(AT_ONCE)) {
      for (const [name, verify] of Object.entries(contestants)) {
        const began = performance.now();
        for (let i = 0; i < TIMES; i += atOnce) {
          await Promise.all(Array.from({ length: atOnce }, () => verify()));
        }
        const each = (performance.now() - began) * 1000 / TIMES;
        if (round < 0) continue; // the first warms up
        const key = `${name}, ${how}`;
        rounds.set(key, [...rounds.get(key) ?? [], each]);
      }
    }
  }
  return Object.fromEntries(
    [...rounds].map(([name, times]) => [name, spread(times)]),
  );
}
