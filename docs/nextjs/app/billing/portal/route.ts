import { openStripe, readAccount, readCustomer, seeOther } from "@/lib/billing";

/** Sends the user to Stripe's customer portal: card, plan, invoices, the end. */
export async function POST(): Promise<Response> {
  const user = await readAccount();
  if (!user) return seeOther("/login");

  const { customer } = await readCustomer(user);
  if (!customer) return seeOther("/billing");

  const { url } = await openStripe().billingPortal.sessions.create({
    customer,
    return_url: `${process.env.SITE_URL}/billing`,
  });
  return seeOther(url);
}
