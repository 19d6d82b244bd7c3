/**
 * What both ways of serving `@stripe/sync-engine` need: the same as its
 * function `stripe-setup` does, but without a network. Its own migrations create
 * the tables. For the columns they read Stripe's OpenAPI specification of the
 * version that is their default; `openapi.json` has what it says of
 * subscriptions and their items. The account and the signing secret are stored
 * where it looks them up for each event, so it never calls Stripe.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import {
  embeddedMigrations,
  runMigrationsFromContent,
  StripeSync,
} from "@stripe/sync-engine";

const ACCOUNT = "acct_1Bx7kQ2mVr4Bench";

/** What `StripeSync.create` needs in any case. */
export const CONFIG = {
  stripeSecretKey: "sk_test_unused",
  schemaName: "stripe",
};

/** Creates its tables, and stores the account and the secret. */
export async function setUp(
  { databaseUrl, secret }: { databaseUrl: string; secret: string },
): Promise<void> {
  await runMigrationsFromContent(
    {
      databaseUrl,
      stripeApiVersion: "2020-08-27",
      schemaName: "stripe",
      openApiSpecPath: fileURLToPath(import.meta.resolve("./openapi.json")),
    },
    embeddedMigrations,
  );
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
