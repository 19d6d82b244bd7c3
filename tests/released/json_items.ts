import type postgres from "postgres";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { runScript } from "../support/run_script.ts";
import { withoutAccount } from "../support/without_account.ts";

/** A difference between Stripe and the records, as `reconcile --json` prints it. */
type Difference = Readonly<Record<string, unknown>> & {
  readonly kind: string;
  readonly fields?: readonly Readonly<Record<string, unknown>>[];
};

/** Returns the fields of `reconcile --json`, with their types. */
export async function jsonItems(
  sql: postgres.Sql,
): Promise<Record<string, string>> {
  // reconcile compares all records, those of other tests included.
  await sql`truncate public.subscriptions, public.failed_events`;
  await sql`
    insert into public.subscriptions (
      id, provider, account_id, status, plan_id, current_period_end
    ) values
      ('sub_differs', 'a', 'acc_other', 'active', 'price_other', now()),
      ('sub_missing_there', 'a', 'acc_1', 'active', 'price_1', now())`;
  const event = subscriptionEvent("customer.subscription.updated");
  await sql`
    select public.record_failed_event(
      'a', ${event.id}, ${JSON.stringify(event)}, 'text', 'event_invalid',
      'A test', ${event.type})`;
  await using stripe = serveStripe();
  const { out, err } = await runScript("reconcile", {
    args: ["--stripe-url", stripe.url, "--json"],
  });
  if (out === "") throw new Error(err);
  const document = JSON.parse(out) as { differences: readonly Difference[] };
  return Object.fromEntries([
    ...fieldsOf(document, "reconcile"),
    ...document.differences.flatMap((difference) => [
      ...fieldsOf(difference, `reconcile ${difference.kind}`),
      ...fieldsOf(difference.fields?.[0] ?? {}, "reconcile differs field"),
    ]),
  ]);
}

function fieldsOf(object: object, name: string): string[][] {
  return Object.entries(object).map(([field, value]) => [
    `json ${name}: ${field}`,
    Array.isArray(value) ? "list" : typeof value,
  ]);
}

/** A stand-in for Stripe's API, with a subscription for each kind of difference. */
function serveStripe() {
  const { data: { object } } = subscriptionEvent(
    "customer.subscription.updated",
    { created: 1_700_000_000 },
  );
  const shown = { ...object, created: 1_700_000_000, livemode: false };
  const lists: Record<string, readonly object[]> = {
    "/v1/subscriptions": [
      { ...shown, id: "sub_differs" },
      { ...shown, id: "sub_missing_here" },
      { ...withoutAccount(shown), id: "sub_unmapped" },
      { ...shown, id: "sub_unreadable", items: { data: [] } },
    ],
    "/v1/events": [{
      ...subscriptionEvent("customer.subscription.updated", {
        subscription: "sub_missing_here",
      }),
      livemode: false,
    }],
  };
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    (request) => {
      const { pathname } = new URL(request.url);
      const headers = { date: new Date().toUTCString() };
      const data = lists[pathname];
      if (data !== undefined) {
        const page = { object: "list", has_more: false, data };
        return Response.json(page, { headers });
      }
      const found = lists["/v1/subscriptions"]?.find((shown) =>
        "id" in shown && pathname.endsWith(`/${shown.id}`)
      );
      const error = { code: "resource_missing" };
      return found === undefined
        ? Response.json({ error }, { status: 404, headers })
        : Response.json(found, { headers });
    },
  );
  return {
    url: `http://127.0.0.1:${server.addr.port}`,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}
