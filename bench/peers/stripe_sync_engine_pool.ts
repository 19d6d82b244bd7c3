/**
 * `@stripe/sync-engine` as its command line holds it while it listens: one
 * instance with a pool of ten connections. Its command needs Stripe and a
 * tunnel, and Express; here the same call is behind Deno's server. The secret is
 * given, which saves it a query for each event.
 *
 * @module
 */
import { StripeSync } from "@stripe/sync-engine";
import { CONFIG, setUp } from "./stripe_sync_engine.ts";

const databaseUrl = Deno.env.get("DATABASE_URL") ?? "";
const secret = Deno.env.get("STRIPE_WEBHOOK_SECRET") ?? "";
await setUp({ databaseUrl, secret });

const sync = await StripeSync.create({
  ...CONFIG,
  stripeWebhookSecret: secret,
  poolConfig: { connectionString: databaseUrl, max: 10, keepAlive: true },
});

Deno.serve(async (request) => {
  const body = new Uint8Array(await request.arrayBuffer());
  const signature = request.headers.get("stripe-signature") ?? undefined;
  // The library's type asks for Node's Buffer; it only ever hashes and parses it.
  await sync.webhook.processWebhook(body as never, signature);
  return Response.json({ received: true });
});
