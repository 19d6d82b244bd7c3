/**
 * What docs/stripe.md says about Stripe, with complete events.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { edited } from "../support/edited.ts";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { API_VERSIONS } from "../../scripts/events/templates.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { handledEvent } from "../../supabase/functions/_shared/billing/formats/stripe.ts";
import { OLD_SHAPES } from "../support/old_shapes.ts";
import { startReceiver } from "../support/receiver.ts";
import { post } from "../support/send.ts";
import { stripeHeader } from "../support/sign.ts";
import { readDoc, sqlBlocks } from "../support/sql_blocks.ts";
import {
  connect,
  rowCounts,
  storedEvent,
  subscriptionRecord,
} from "../support/tables.ts";

const OLD_ENDPOINT = "whsec_of_the_old_endpoint";
const NEW_ENDPOINT = "whsec_of_the_new_endpoint";

const sql = connect();
const receiver = await startReceiver({
  env: {
    PROVIDER_A_SIGNATURE_HEADER: "stripe-signature",
    PROVIDER_A_SIGNING_SECRET: `${OLD_ENDPOINT},${NEW_ENDPOINT}`,
  },
});
Deno.test.afterAll(async () => {
  await receiver[Symbol.asyncDispose]();
  await sql.end();
});

async function send(event: object, secret = OLD_ENDPOINT): Promise<number> {
  const body = JSON.stringify(event, null, 2);
  const timestamp = Math.floor(Date.now() / 1000);
  const signature = await stripeHeader(body, { secret, timestamp });
  const headers = { "stripe-signature": signature };
  return (await post(receiver.url, { headers, body })).status;
}

Deno.test("stripe.md names the API versions that are tested", async () => {
  const page = await readDoc("stripe.md");
  assertEquals(API_VERSIONS.length, 2);
  for (const version of API_VERSIONS) assert(page.includes(version), version);
});

Deno.test("one event from two endpoints, in the shapes of two API versions, is applied once", async () => {
  const subscription = uniqueId("sub");
  const created = subscriptionEvent("customer.subscription.created", {
    subscription,
  });
  assertEquals(await send(created), 200);
  const [before, since] = API_VERSIONS.map((apiVersion) =>
    invoiceEvent({
      id: "evt_" + subscription,
      subscription,
      invoice: "in_1",
      apiVersion,
    })
  );
  assertEquals(await send(before!, OLD_ENDPOINT), 200);
  assertEquals(await send(since!, NEW_ENDPOINT), 200);
  const { ledger, notifications } = await storedEvent(sql, before!.id);
  assertEquals([ledger.length, notifications.length], [1, 1]);
});

Deno.test("each failed attempt at one invoice is notified by itself", async () => {
  const subscription = uniqueId("sub");
  const invoice = uniqueId("in");
  await send(subscriptionEvent("customer.subscription.created", {
    subscription,
  }));
  const attempts = [1, 2, 3].map(() => invoiceEvent({ subscription, invoice }));
  for (const attempt of attempts) assertEquals(await send(attempt), 200);
  const rows = await sql`
    select event_id from billing.notifications where invoice_id = ${invoice}`;
  assertEquals(
    rows.map((row) => row["event_id"]).sort(),
    attempts.map(({ id }) => id).sort(),
  );
});

Deno.test("a function of one's own knows the account of a customer's first subscription", async () => {
  const [block] = sqlBlocks(await readDoc("stripe.md"), "stripe.md");
  const nothing = new Error("nothing of it stays");
  const [customer, id] = [uniqueId("cus"), uniqueId("sub")];
  const account = crypto.randomUUID();
  let found: unknown;
  await sql.begin(async (tx) => {
    await tx`
      create table public.customers (account_id uuid, stripe_customer_id text)`;
    await tx`insert into public.customers values (${account}, ${customer})`;
    await tx`grant select on public.customers to service_role`;
    await tx.unsafe(block!.sql).simple();
    await tx`set local role service_role`;
    const creation = subscriptionEvent("customer.subscription.created", {
      subscription: id,
      customer,
      account: null,
    });
    const event = {
      ...handledEvent.parse(creation),
      place: 1,
      provider: "a",
    };
    await tx`select public.billing_apply_events(${sql.json([event] as never)})`;
    [found] = await tx`
      select account_id from billing.subscriptions where id = ${id}`;
    throw nothing;
  }).catch((error) => {
    if (error !== nothing) throw error;
  });
  assertEquals(found, { account_id: account });
});

for (const { version, subscription, previous, becomes } of OLD_SHAPES) {
  const outcome = typeof becomes === "string" ? "refused" : "applied";
  Deno.test(`a creation and an update of ${version} are ${outcome}`, async () => {
    const id = uniqueId("sub");
    const created = Math.floor(Date.now() / 1000) - 60;
    const object = {
      ...subscription,
      id,
      customer: "cus_1",
      metadata: { accountId: "acc_1" },
    };
    const common = { object: "event", livemode: false };
    const events = [
      {
        ...common,
        id: uniqueId("evt"),
        created,
        type: "customer.subscription.created",
        data: { object },
      },
      {
        ...common,
        id: uniqueId("evt"),
        created: created + 30,
        type: "customer.subscription.updated",
        data: { object, previous_attributes: previous },
      },
    ];
    for (const event of events) {
      assertEquals(await send(event), outcome === "applied" ? 200 : 422);
      const { failures } = await storedEvent(sql, event.id);
      const [error = ""] = `${failures[0]?.["error"] ?? ""}`.split("; ");
      assertEquals(error, outcome === "applied" ? "" : becomes);
    }
    const [record] = await sql`
      select status, plan_id, current_period_end, provider_status, quantity,
        cancel_at, trial_end, paused, livemode
      from billing.subscriptions where id = ${id}`;
    assertEquals<unknown>(
      record && { ...record },
      outcome === "applied" ? becomes : undefined,
    );
  });
}

Deno.test("a thin event is acknowledged, and nothing comes of it", async () => {
  const before = await rowCounts(sql);
  const status = await send({
    id: uniqueId("evt"),
    object: "v2.core.event",
    type: "v1.customer.subscription.created",
    created: new Date().toISOString(),
    related_object: { id: uniqueId("sub"), type: "subscription" },
  });
  assertEquals(status, 200);
  assertEquals(await rowCounts(sql), before);
});

Deno.test("a subscription that begins as incomplete is active until its update", async () => {
  const subscription = uniqueId("sub");
  const created = Math.floor(Date.now() / 1000) - 60;
  await send(edited(
    subscriptionEvent("customer.subscription.created", {
      subscription,
      created,
    }),
    { "data.object.status": "incomplete" },
  ));
  const status = async () =>
    (await subscriptionRecord(sql, subscription))?.["status"];
  assertEquals(await status(), "active");
  await send(subscriptionEvent("customer.subscription.updated", {
    subscription,
    created: created + 30,
    status: "incomplete_expired",
  }));
  assertEquals(await status(), "incomplete_expired");
});
