/**
 * Failures that heal without a person, over a whole stack: by a creation that comes
 * after its update, by the schedule, and with a provider that is told 200.
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
import { deliver, post } from "../support/send.ts";
import { killFunction, startOwnStack } from "../support/stacks.ts";

const PAIRS = 200;
const CONNECTIONS = 16;
/** Every tenth has a failed payment besides. */
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

async function wakeBySchedule() {
  const headers = { apikey: stack.keys.secret };
  const { status, body } = await post(stack.urls.worker, { headers });
  assertEquals(status, 200, body);
}

/** The events of a pair, in the order in which they must not come. */
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

async function sendAll(onAnswer: (answers: number) => void = () => {}) {
  const events = Array.from({ length: PAIRS }, (_, i) => overtaken(i)).flat()
    .values();
  let answers = 0;
  let failed = 0;
  await Promise.all(Array.from({ length: CONNECTIONS }, async () => {
    for (const event of events) {
      const { status } = await deliver(webhook, event);
      if (status !== 200) failed++;
      onAnswer(++answers);
    }
  }));
  assert(failed > 0, "No update came before its creation");
  return failed;
}

async function healed(failures: number): Promise<string[]> {
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
  await sql`
    truncate billing.subscriptions, billing.failed_events,
      billing.notifications`;
  return endpoint.arrivals.splice(0).map(({ id }) => id);
}

Deno.test(`of ${PAIRS} subscriptions whose updates overtake their creations, every record is right and every failure resolved, with no alert and no notification twice`, async () => {
  const startedMs = performance.now();
  const failures = await sendAll();
  const sentMs = performance.now();
  const told = await healed(failures);
  const healedMs = performance.now();
  assertEquals([told.length, new Set(told).size], [INVOICES, INVOICES]);
  console.log(
    `${failures} failures; sent in ${sentMs - startedMs} ms, healed ${
      healedMs - sentMs
    } ms later`,
  );
});

Deno.test("so they are if the worker is killed in between, at the next wake of the schedule", async () => {
  let killed: Promise<unknown> | undefined;
  const failures = await sendAll((answers) => {
    if (answers === PAIRS) killed = killFunction(stack.ports.worker);
  });
  await killed;
  await stack.restartFunctions(env);
  // As a minute would.
  await sql`update billing.leases set held_until = now()`;
  await sql`
    update billing.notifications set next_attempt_at = now()
    where status = 'pending'`;
  await wakeBySchedule();
  // What it was telling when it was killed is told again, under the same ID.
  assertEquals(new Set(await healed(failures)).size, INVOICES);
});

const EVENTS = 120;

Deno.test("with PROVIDER_A_FAILURES=acknowledge, nothing is answered 200 that is not stored, while Postgres is killed", async () => {
  const setting = { PROVIDER_A_FAILURES: "acknowledge" };
  await stack.restartFunctions({ ...env, ...setting });
  const answered: string[] = [];
  const others: number[] = [];
  const events = Array.from(
    { length: EVENTS },
    (_, index) =>
      index % 3 === 0
        ? subscriptionEvent("customer.subscription.created")
        : index % 3 === 1
        ? invoiceEvent()
        : edited(invoiceEvent(), { created: "soon" }),
  ).entries();
  let killed: Promise<void> | undefined;
  await Promise.all(Array.from({ length: CONNECTIONS }, async () => {
    for (const [index, event] of events) {
      if (index === EVENTS / 3) await (killed = stack.postgres.kill());
      if (index === 2 * EVENTS / 3) {
        await killed;
        await stack.postgres.start();
      }
      const { status } = await deliver(webhook, event);
      if (status === 200) answered.push((event as { id: string }).id);
      else others.push(status);
    }
  }));
  console.log(`${answered.length} answered 200, ${others.length} not`);
  assert(answered.length > 0 && others.length > 0);
  const stored = await sql`
    select event_id from billing.processed_events
    union
    select event_id from billing.failed_events`;
  const ids = new Set(stored.map(({ event_id }) => event_id));
  assertEquals(answered.filter((id) => !ids.has(id)), []);
});
