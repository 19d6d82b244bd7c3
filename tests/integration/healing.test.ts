/**
 * Failures that heal without a person, over a whole stack, and failures that are
 * acknowledged.
 */
import { assert, assertEquals } from "@std/assert";
import { functionEnvironment } from "../../scripts/common/environment.ts";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { waitUntil } from "../../scripts/local_stack/wait_until.ts";
import { edited } from "../support/edited.ts";
import { HANG_LIMIT_MS } from "../support/hang_limit.ts";
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

const endpoint = startNotifiedEndpoint();
const alerts = startNotifiedEndpoint();
const env = {
  ...functionEnvironment({}),
  ...endpoint.env,
  ...alertEnvironment(alerts),
};
const own = await startOwnStack({ env, fsync: true });
const { stack, sql } = own;
Deno.test.afterAll(async () => {
  for (const used of [own, endpoint, alerts]) {
    await used[Symbol.asyncDispose]();
  }
});
const webhook = `${stack.urls.webhookProcess}/billing-webhook`;

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

/** Delivers events over all connections. */
async function sendAll<Event extends object>(
  events: readonly Event[],
  onAnswer: (status: number, event: Event) => void,
): Promise<void> {
  const left = events.values();
  await Promise.all(Array.from({ length: CONNECTIONS }, async () => {
    for (const event of left) {
      const { status } = await deliver(webhook, event);
      onAnswer(status, event);
    }
  }));
}

/** Waits until nothing is open, and checks what is stored. */
async function assertHealed(failures: number): Promise<void> {
  const isHealed = async () => {
    const [open] = await sql`
      select
        (select count(*)::int from billing.failed_events
          where resolved_at is null) as failures,
        (select count(*)::int from billing.notifications
          where status = 'pending') as notifications`;
    return open?.failures === 0 && open.notifications === 0;
  };
  assert(await waitUntil(isHealed, { timeoutMs: HANG_LIMIT_MS }), "not healed");

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
}

Deno.test(`of ${PAIRS} subscriptions whose updates overtake their creations, every record is right and every failure resolved, with no alert and no notification twice`, async () => {
  const pairs = Array.from({ length: PAIRS }, (_, i) => overtaken(i));
  let failures = 0;
  await sendAll(pairs.flat(), (status) => {
    if (status !== 200) failures++;
  });
  assert(failures > 0, "No update came before its creation");

  const sentMs = performance.now();
  await assertHealed(failures);
  const tookMs = performance.now() - sentMs;
  console.log(`${failures} failures, healed after ${tookMs} ms`);

  const ids = endpoint.arrivals.map(({ id }) => id);
  assertEquals([ids.length, new Set(ids).size], [INVOICES, INVOICES]);
});

const EVENTS = 120;

/** One is applied, one lacks its subscription, and one is not valid. */
const mixed = () => [
  subscriptionEvent("customer.subscription.created"),
  invoiceEvent(),
  edited(invoiceEvent(), { created: "soon" }),
];

Deno.test("with PROVIDER_A_FAILURES=acknowledge, nothing is answered 200 that is not stored, while Postgres is killed", async () => {
  const setting = { PROVIDER_A_FAILURES: "acknowledge" };
  await stack.restartFunctions({ ...env, ...setting });
  const events = Array.from({ length: EVENTS / 3 }, mixed).flat();
  const answered: string[] = [];
  let answers = 0;
  let restarted: Promise<void> | undefined;
  await sendAll(events, (status, { id }) => {
    if (status === 200) answered.push(id);
    answers++;
    if (answers === EVENTS / 3) {
      restarted = stack.postgres.kill().then(() => stack.postgres.start());
    }
  });
  await restarted;

  console.log(`${answered.length} of ${EVENTS} answered 200`);
  assert(answered.length > 0 && answered.length < EVENTS);
  const stored = await sql`
    select event_id from billing.processed_events
    union
    select event_id from billing.failed_events`;
  const ids = new Set(stored.map(({ event_id }) => event_id));
  assertEquals(answered.filter((id) => !ids.has(id)), []);
});
