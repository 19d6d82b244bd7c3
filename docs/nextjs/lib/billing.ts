/** What the page and the routes share: the user's account, a quota, and Stripe. */
import Stripe from "stripe";
import { createClient } from "@/utils/supabase/server";

/** The prices that you sell, with their names. */
export const PLANS: Readonly<Record<string, string>> = {
  price_starter: "Starter",
  price_pro: "Pro",
};

/** What an account that never had a trial gets; `{}` for no trial. */
export const TRIAL = { trial_period_days: 14 };

/** Where users sign in. */
export const SIGN_IN = "/login";

/** What `public.billing_account` answers. */
export type Account = {
  access: boolean;
  access_until: string | null;
  subscription_id: string | null;
  /** `manual` for a grant. */
  provider: string | null;
  plan_id: string | null;
  status: string | null;
  quantity: number | null;
  current_period_end: string | null;
  cancel_at: string | null;
  trial_end: string | null;
  past_due_since: string | null;
  paused: boolean | null;
  /** Null is unlimited. */
  features: Record<string, number | null>;
  had_trial: boolean | null;
  subscriptions: number | null;
};

/** Returns the account of the user; null if nobody is signed in. */
export async function readAccount() {
  const supabase = await createClient();
  const { data: session } = await supabase.auth.getClaims();
  if (!session) return null;

  // If teams pay: the team's ID.
  const accountId = session.claims.sub;
  const { data } = await supabase
    .rpc("billing_account", { account_id: accountId })
    .throwOnError();

  return { supabase, accountId, account: data as Account };
}

type SignedIn = NonNullable<Awaited<ReturnType<typeof readAccount>>>;

/** Returns the account's customer at Stripe, and whether a subscription is open there. */
export async function readCustomer({ supabase, accountId }: SignedIn) {
  const { data } = await supabase
    .from("billing_subscriptions")
    .select("customer_id, status, provider_status")
    .eq("account_id", accountId)
    .eq("provider", "a")
    .order("created_at", { ascending: false })
    .throwOnError();

  const openStatuses = ["active", "trialing", "past_due", "unpaid", "paused"];
  const open = data.find(({ status, provider_status }) =>
    status !== "canceled" && openStatuses.includes(provider_status ?? "")
  );
  return {
    // Someone who paid twice may be two customers.
    customer: (open ?? data[0])?.customer_id,
    isSubscribed: open !== undefined,
  };
}

/** Uses one more of a feature. Returns false if the plan has no room for it. */
export async function takeOne({ supabase }: SignedIn, feature: string) {
  const { data } = await supabase.rpc("use_feature", { feature })
    .throwOnError();
  return data as boolean;
}

/** Sends the user to a page of Stripe that `open` asks for. */
export async function toStripe(
  open: (stripe: Stripe) => Promise<{ url: string | null }>,
): Promise<Response> {
  try {
    // For each request, as `next build` has no key.
    const { url } = await open(new Stripe(process.env.STRIPE_SECRET_KEY!));
    return seeOther(url!);
  } catch (error) {
    // Such as a wrong key, or a customer of another Stripe account.
    console.error(`${error}`);
    const text = "Stripe refused. The log of the server says why.";
    return new Response(text, { status: 502 });
  }
}

/** Sends the browser on after a form. (Next's `redirect` would repeat its POST.) */
export function seeOther(location: string): Response {
  return new Response(null, { status: 303, headers: { location } });
}
