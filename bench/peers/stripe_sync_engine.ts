/**
 * `@stripe/sync-engine`, in one of two ways:
 *
 * - As its installer and Supabase's dashboard serve it: with the code of the edge
 *   function `stripe-webhook`, which the package contains as text. It opens a database
 *   connection for each event.
 * - With POOL, as its command line runs it: one instance with a pool of that many
 *   connections, here behind Deno's server.
 *
 * It is set up as its function `stripe-setup` would do it, but offline. Its migrations
 * take the columns from Stripe's OpenAPI specification; `COLUMNS` has the part of the
 * default version about subscriptions and their items. The account and the signing
 * secret are stored where it looks them up for each event, so it never calls Stripe.
 */
import {
  embeddedMigrations,
  runMigrationsFromContent,
  StripeSync,
} from "@stripe/sync-engine";
import { webhookFunctionCode } from "@stripe/sync-engine/supabase";

const ACCOUNT = "acct_1Bx7kQ2mVr4Bench";

/** The options of `StripeSync.create` that both ways need. */
const CONFIG = {
  stripeSecretKey: "sk_test_unused",
  schemaName: "stripe",
};

/** The fields of Stripe's objects, by type; `id` for those that name another object. */
const COLUMNS = {
  subscription: {
    string: "id object collection_method status",
    number: "application_fee_percent",
    integer: "billing_cycle_anchor cancel_at canceled_at created " +
      "current_period_end current_period_start days_until_due ended_at " +
      "next_pending_invoice_item_invoice start_date trial_end trial_start",
    object: "billing_thresholds discount items metadata pause_collection " +
      "pending_invoice_item_interval pending_update transfer_data",
    boolean: "cancel_at_period_end livemode",
    array: "default_tax_rates",
    id: "customer default_payment_method default_source latest_invoice " +
      "pending_setup_intent schedule",
  },
  subscription_item: {
    string: "id object subscription",
    integer: "created quantity",
    object: "billing_thresholds metadata plan price",
    array: "tax_rates",
  },
};

const databaseUrl = Deno.env.get("DATABASE_URL") ?? "";
const secret = Deno.env.get("STRIPE_WEBHOOK_SECRET") ?? "";
const pool = Deno.env.get("POOL");

await setUp();
if (pool === undefined) {
  Deno.env.set("SUPABASE_DB_URL", databaseUrl);
  Deno.env.set("STRIPE_SECRET_KEY", CONFIG.stripeSecretKey);
  // The code imports `npm:stripe`, `npm:pg` and so on; the import map has their versions.
  const code = webhookFunctionCode.replaceAll('"npm:', '"');
  const file = new Blob([code], { type: "text/javascript" });
  await import(URL.createObjectURL(file));
} else {
  const sync = await StripeSync.create({
    ...CONFIG,
    stripeWebhookSecret: secret, // saves a query per event
    poolConfig: {
      connectionString: databaseUrl,
      max: Number(pool),
      keepAlive: true,
    },
  });
  Deno.serve(async (request) => {
    const body = new Uint8Array(await request.arrayBuffer());
    const signature = request.headers.get("stripe-signature") ?? undefined;
    // The library's type asks for Node's Buffer; it only hashes and parses it.
    await sync.webhook.processWebhook(body as never, signature);
    return Response.json({ received: true });
  });
}

/** Creates its tables, and stores the account and the secret. */
async function setUp(): Promise<void> {
  const openApiSpecPath = await Deno.makeTempFile({ suffix: ".json" });
  await Deno.writeTextFile(openApiSpecPath, JSON.stringify(openApi()));

  await runMigrationsFromContent(
    {
      databaseUrl,
      stripeApiVersion: "2020-08-27",
      schemaName: "stripe",
      openApiSpecPath,
    },
    embeddedMigrations,
  );
  await Deno.remove(openApiSpecPath);

  const sync = await StripeSync.create({
    ...CONFIG,
    stripeAccountId: ACCOUNT,
    poolConfig: { connectionString: databaseUrl, max: 1 },
  });
  await sync.postgresClient.query(
    `insert into stripe._managed_webhooks
       (id, object, url, enabled_events, status, secret, livemode, created, account_id)
     values ('we_bench', 'webhook_endpoint', 'http://127.0.0.1/', '["*"]',
       'enabled', $1, false, 1750000000, $2)
     on conflict do nothing`,
    [secret, ACCOUNT],
  );
  await sync.close();
}

/** Returns Stripe's specification of these columns. */
function openApi(): object {
  const schemas: Record<string, object> = {};
  for (const [name, columns] of Object.entries(COLUMNS)) {
    const properties: Record<string, object> = {};
    for (const [type, fields] of Object.entries(columns)) {
      for (const field of fields.split(" ")) {
        properties[field] = type === "id"
          ? { type: "string", "x-expansionResources": {} }
          : { type };
      }
    }
    schemas[name] = { "x-resourceId": name, type: "object", properties };
  }
  const info = { title: "Stripe API", version: "2020-08-27" };
  return { openapi: "3.0.0", info, components: { schemas } };
}
