/**
 * `@stripe/sync-engine` as its installer and Supabase's dashboard serve it: the
 * code of the edge function `stripe-webhook`, which the package has as a text
 * and uploads as it is. It opens a database connection for each event.
 *
 * @module
 */
import { webhookFunctionCode } from "@stripe/sync-engine/supabase";
import { setUp } from "./stripe_sync_engine.ts";

const databaseUrl = Deno.env.get("DATABASE_URL") ?? "";
await setUp({
  databaseUrl,
  secret: Deno.env.get("STRIPE_WEBHOOK_SECRET") ?? "",
});

Deno.env.set("SUPABASE_DB_URL", databaseUrl);
Deno.env.set("STRIPE_SECRET_KEY", "sk_test_unused");
// It asks for the newest `npm:stripe`, `npm:pg` and so on; the import map has them.
const code = webhookFunctionCode.replaceAll('"npm:', '"');
await import(
  URL.createObjectURL(new Blob([code], { type: "text/javascript" }))
);
