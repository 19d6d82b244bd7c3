/** Failures that heal without a person, over a whole stack. */
import { assert, assertEquals } from "@std/assert";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { eventually } from "../support/hang_limit.ts";
import {
  alertEnvironment,
  startNotifiedEndpoint,
} from "../support/notified.ts";
import { deliver } from "../support/send.ts";
import { startOwnStack } from "../support/stacks.ts";

const PAIRS = 200;
const CONNECTIONS = 16;
/** Every tenth pair has a failed payment besides. */
const INVOICES = PAIRS / 10;

/** Returns the events of a pair, in the order in which they must not come. */
function overtaken(index: number): object[] {
  const subscription = uniqueId("sub");
  const created = Math.floor(Date.now() / 1000) - 10;
  const events = [
    subscriptionEvent("customer.subscription.updated", {
      subscription,
      created: created + 1,
      plan: "price_new",
      status: "active",
      previous: { status: "incomplete" },
    }),
    subscriptionEvent("customer.subscription.created", {
      subscription,
      created,
      status: "incomplete",
    }),
  ];
  return index % (PAIRS / INVOICES) === 0
    ? [invoiceEvent({ subscription, created: created + 2 }), ...events]
    : events;
}

Deno.test(`of ${PAIRS} subscriptions whose updates overtake their creations, every record is right and every failure resolved, with no alert and no notification twice`, async () => {
  await using endpoint = startNotifiedEndpoint();
  await using alerts = startNotifiedEndpoint();
  const env = { ...endpoint.env, ...alertEnvironment(alerts) };
  await using started = await startOwnStack({ env });
  const { stack, sql } = started;
  const webhook = `${stack.urls.webhookProcess}/billing-webhook`;

  const events = Array.from({ length: PAIRS }, (_, i) => overtaken(i)).flat()
    .values();
  let failures = 0;
  await Promise.all(Array.from({ length: CONNECTIONS }, async () => {
    for (const event of events) {
      const { status } = await deliver(webhook, event);
      if (status !== 200) failures++;
    }
  }));
  assert(failures > 0, "No update came before its creation");

  const sentMs = performance.now();
  await eventually(async () => {
    const open = await sql`
      select event_id from billing.failed_events where resolved_at is null
      union all
      select event_id from billing.notifications where status = 'pending'`;
    return open.length === 0;
  });
  const tookMs = performance.now() - sentMs;
  console.log(`${failures} failures, healed after ${tookMs} ms`);

  const [stored] = await sql`
    select
      (select count(*)::int from billing.subscriptions
        where provider_status = 'active' and status = 'active'
          and plan_id = 'price_new') as records,
      (select count(*)::int from billing.failed_events
        where resolution = 'applied') as applied,
      (select count(*)::int from billing.notifications
        where status = 'sent') as notifications`;
  assertEquals({ ...stored }, {
    records: PAIRS,
    applied: failures,
    notifications: INVOICES,
  });
  assertEquals(alerts.arrivals, []);
  const ids = endpoint.arrivals.map(({ id }) => id);
  assertEquals([ids.length, new Set(ids).size], [INVOICES, INVOICES]);
});
