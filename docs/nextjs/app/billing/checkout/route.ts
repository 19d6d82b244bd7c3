import {
  PLANS,
  readAccount,
  readCustomer,
  seeOther,
  SIGN_IN,
  toStripe,
  TRIAL,
} from "@/lib/billing";

/** Sends the user to Stripe's Checkout, to pay for `price`. */
export async function POST(request: Request): Promise<Response> {
  const user = await readAccount();
  if (!user) return seeOther(SIGN_IN);

  // Anyone can send any price.
  const price = String((await request.formData()).get("price"));
  if (!Object.hasOwn(PLANS, price)) {
    return new Response("There is no such plan.", { status: 400 });
  }

  // A second subscription would be paid, too. The portal changes the first.
  const { customer, isSubscribed } = await readCustomer(user);
  if (isSubscribed) return seeOther("/billing");

  return await toStripe((stripe) =>
    stripe.checkout.sessions.create({
      mode: "subscription",
      line_items: [{ price, quantity: 1 }],
      ...(customer && { customer }),
      subscription_data: {
        // The session's own metadata would not reach the subscription.
        metadata: { accountId: user.accountId },
        // One trial per account.
        ...(!user.account.had_trial && TRIAL),
      },
      success_url: `${process.env.SITE_URL}/billing?paid=1`,
      cancel_url: `${process.env.SITE_URL}/billing`,
    })
  );
}
