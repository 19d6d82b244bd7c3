/**
 * A function as people write it by hand, like Supabase's example `stripe-webhooks`: the
 * stripe package verifies with SubtleCrypto, and supabase-js upserts the subscription
 * and its customer at the same time, since no foreign key requires an order.
 */
import { createClient } from "@supabase/supabase-js";
import Stripe from "stripe";

const stripe = new Stripe("sk_test_unused");
const cryptoProvider = Stripe.createSubtleCryptoProvider();
const secret = Deno.env.get("STRIPE_WEBHOOK_SECRET") ?? "";
const supabase = createClient(
  Deno.env.get("SUPABASE_URL") ?? "",
  JSON.parse(Deno.env.get("SUPABASE_SECRET_KEYS") ?? "{}").default,
  { auth: { persistSession: false, autoRefreshToken: false } },
);

Deno.serve(async (request) => {
  const event = await stripe.webhooks.constructEventAsync(
    await request.text(),
    request.headers.get("stripe-signature") ?? "",
    secret,
    undefined,
    cryptoProvider,
  ).catch(() => undefined);
  if (!event) return new Response("Invalid signature", { status: 400 });

  try {
    switch (event.type) {
      case "customer.subscription.created":
      case "customer.subscription.updated":
      case "customer.subscription.deleted":
        await storeSubscription(event.data.object, timeOf(event.created));
    }
    return Response.json({ received: true });
  } catch (error) {
    console.error(event.id, error);
    return new Response("Not stored", { status: 500 });
  }
});

async function storeSubscription(
  subscription: Stripe.Subscription,
  updated_at: string | null,
): Promise<void> {
  const { id, customer, metadata, items: { data: [item] } } = subscription;
  const customer_id = typeof customer === "string" ? customer : customer.id;
  const account_id = metadata["accountId"];

  const results = await Promise.all([
    supabase.from("customers_by_hand")
      .upsert({ id: customer_id, account_id, updated_at }),
    supabase.from("subscriptions_by_hand").upsert({
      id,
      customer_id,
      account_id,
      status: subscription.status,
      price_id: item?.price.id,
      quantity: item?.quantity,
      cancel_at_period_end: subscription.cancel_at_period_end,
      cancel_at: timeOf(subscription.cancel_at),
      canceled_at: timeOf(subscription.canceled_at),
      current_period_end: timeOf(item?.current_period_end),
      trial_end: timeOf(subscription.trial_end),
      updated_at,
    }),
  ]);
  for (const { error } of results) if (error) throw error;
}

function timeOf(seconds: number | null | undefined): string | null {
  return seconds ? new Date(seconds * 1000).toISOString() : null;
}
