/** @jsxImportSource react */
import { redirect } from "next/navigation";
import { Suspense } from "react";
import {
  type Account,
  PLANS,
  readAccount,
  readCustomer,
  SIGN_IN,
} from "@/lib/billing";

interface Props {
  searchParams: Promise<{ paid?: string }>;
}

/** The user's plan. Checkout ends here, with `?paid=1`. */
export default function BillingPage(props: Props) {
  return (
    <Suspense fallback={<p>One moment ...</p>}>
      <Billing {...props} />
    </Suspense>
  );
}

async function Billing({ searchParams }: Props) {
  // First, so that `next build` leaves the page to requests.
  const { paid } = await searchParams;
  const user = await readAccount();
  if (!user) redirect(SIGN_IN);

  const { customer, isSubscribed } = await readCustomer(user);
  if (paid && !isSubscribed) return <Wait seconds={Number(paid)} />;

  const { account } = user;
  const { seats } = account.features;
  return (
    <main>
      <h1>{planName(account)}</h1>
      {account.status === "past_due" && (
        <p role="alert">
          Your last payment failed. Please check your card
          {account.access && account.access_until
            ? ` before ${day(account.access_until)}`
            : ": until it is paid, your plan is off"}.
        </p>
      )}
      {(account.status !== "past_due" || account.cancel_at) && (
        <p>{whatNext(account)}</p>
      )}
      {seats !== undefined && <p>Seats: {seats ?? "unlimited"}</p>}

      {!isSubscribed && (
        <form action="/billing/checkout" method="post">
          {Object.entries(PLANS).map(([price, name]) => (
            <button key={price} name="price" value={price}>{name}</button>
          ))}
        </form>
      )}
      {customer && (
        <form action="/billing/portal" method="post">
          <button>Card, plan and invoices</button>
        </form>
      )}
    </main>
  );
}

/** Looks again after a second, as the user is often here before the event. */
function Wait({ seconds }: { seconds: number }) {
  if (!(seconds <= 30)) {
    return (
      <form action="/billing">
        <p>Your bank has not confirmed the payment yet.</p>
        <button>Back to your plan</button>
      </form>
    );
  }
  return (
    <main>
      <meta
        httpEquiv="refresh"
        content={`1;url=/billing?paid=${seconds + 1}`}
      />
      <p>Thank you. One moment ...</p>
    </main>
  );
}

function planName({ subscription_id, plan_id }: Account): string {
  if (!subscription_id || !plan_id) return "Free";
  return PLANS[plan_id] ?? plan_id;
}

function whatNext(account: Account): string {
  const { access, status, cancel_at, trial_end, current_period_end } = account;
  if (!account.subscription_id) return "Choose a plan.";
  // A grant that has ended by itself is active.
  const isOver = cancel_at && Date.parse(cancel_at) <= Date.now();
  if (status === "canceled" || isOver) return "It has ended.";
  if (cancel_at) return `It ends on ${day(cancel_at)}.`;
  if (!access) return "It is paused, or not paid.";
  if (status === "trialing" && trial_end) {
    return `Your trial ends on ${day(trial_end)}.`;
  }
  if (current_period_end) return `It renews on ${day(current_period_end)}.`;
  return "It has no end.";
}

function day(time: string): string {
  return new Date(time)
    .toLocaleDateString("en", { dateStyle: "long", timeZone: "UTC" });
}
