/**
 * `@supabase/stripe-sync-engine`, as its documentation shows it for an edge function:
 * with a direct pool of twenty connections to Postgres. It fetches nothing from Stripe.
 */
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { runMigrations, StripeSync } from "@supabase/stripe-sync-engine";

// Even its ES build looks for the migrations in a CommonJS module's `__dirname`.
Object.assign(globalThis, {
  __dirname: dirname(
    fileURLToPath(import.meta.resolve("@supabase/stripe-sync-engine")),
  ),
});

const databaseUrl = Deno.env.get("DATABASE_URL") ?? "";
await runMigrations({ databaseUrl, schema: "stripe" });

const sync = new StripeSync({
  poolConfig: { connectionString: databaseUrl, max: 20, keepAlive: true },
  stripeWebhookSecret: Deno.env.get("STRIPE_WEBHOOK_SECRET") ?? "",
  stripeSecretKey: "sk_test_unused",
  backfillRelatedEntities: false,
  autoExpandLists: true,
});

Deno.serve(async (request) => {
  const body = new Uint8Array(await request.arrayBuffer());
  const signature = request.headers.get("stripe-signature") ?? undefined;
  // The library's type asks for Node's Buffer; it only hashes and parses it.
  await sync.processWebhook(body as never, signature);
  return Response.json({ received: true });
});
