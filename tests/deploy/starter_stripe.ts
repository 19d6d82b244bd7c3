/**
 * The app's part of Stripe: its subscriptions, the webhook handler that the
 * starter has for them, and the API that the import asks.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { localKeys } from "../../scripts/common/keys.ts";
import type { SubscriptionObject } from "../../scripts/events/event_types.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { post } from "../support/send.ts";
import { startPostgrest } from "../support/start_postgrest.ts";
import { withoutAccount } from "../support/without_account.ts";
import type { HostedProject } from "./hosted_project.ts";

/** The app's users. */
export const USERS = [1, 2, 3].map((n) =>
  `1111111${n}-1111-4111-8111-111111111111`
);

const userOf = ({ id }: Subscription) =>
  USERS.find((user) => id.endsWith(user.slice(0, 8)));

/** A subscription, as Stripe shows it. */
export type Subscription = SubscriptionObject & { customer: string };

/** A subscription of a user, as Stripe has it: without an account ID. */
export function subscriptionOf(user: string, status: string): Subscription {
  const { data: { object } } = withoutAccount(
    subscriptionEvent("customer.subscription.updated", {
      subscription: `sub_${user.slice(0, 8)}`,
      customer: `cus_${user.slice(0, 8)}`,
      plan: "price_1",
      status,
    }),
  );
  return { ...object, created: 1_700_000_000 } as Subscription;
}

/** Does with the table what the starter's handler does, through the REST API. */
export async function handle(
  { databaseUrl }: HostedProject,
  subscription: Subscription,
): Promise<void> {
  await using rest = await startPostgrest(databaseUrl);
  const { serviceRole } = await localKeys();
  const { status, body } = await post(`${rest.url}/subscriptions`, {
    headers: {
      authorization: `Bearer ${serviceRole}`,
      "content-type": "application/json",
      // As supabase-js upserts: the database knows what the primary key is.
      prefer: "resolution=merge-duplicates,return=minimal",
    },
    body: JSON.stringify([{
      id: subscription.id,
      user_id: userOf(subscription),
      status: subscription.status,
      metadata: subscription.metadata,
      price_id: subscription.items.data[0].price.id,
      quantity: 1,
      current_period_end: new Date(
        1000 * (subscription.current_period_end ?? 0),
      ).toISOString(),
    }]),
  });
  assert(status === 200 || status === 201, body);
  const query = `${rest.url}/subscriptions?select=id,prices(unit_amount)`;
  const read = await fetch(query, {
    headers: { authorization: `Bearer ${serviceRole}` },
  });
  const [row] = await read.json();
  assertEquals(row.prices, { unit_amount: 500 });
}

/** Stripe's API, as far as the import asks it. */
export function serveStripe(subscriptions: ReadonlyMap<string, Subscription>) {
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    ({ url }) => {
      const [, , what, id] = new URL(url).pathname.split("/");
      const data = what === "subscriptions" ? [...subscriptions.values()] : [];
      return Response.json(
        id === undefined
          ? { object: "list", data, has_more: false }
          : subscriptions.get(id),
      );
    },
  );
  return {
    url: `http://127.0.0.1:${server.addr.port}`,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}
