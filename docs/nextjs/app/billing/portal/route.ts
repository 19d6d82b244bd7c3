import {
  readAccount,
  readCustomer,
  seeOther,
  SIGN_IN,
  toStripe,
} from "@/lib/billing";

/** Sends the user to Stripe's customer portal: card, plan, invoices, the end. */
export async function POST(): Promise<Response> {
  const user = await readAccount();
  if (!user) return seeOther(SIGN_IN);

  const { customer } = await readCustomer(user);
  if (!customer) return seeOther("/billing");

  return await toStripe((stripe) =>
    stripe.billingPortal.sessions.create({
      customer,
      return_url: `${process.env.SITE_URL}/billing`,
    })
  );
}
