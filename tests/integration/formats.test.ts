/**
 * A provider other than Stripe, over HTTP. The fields of each are in
 * tests/unit/functions/formats.test.ts, and its signatures in tests/judges.
 */
import { assertEquals } from "@std/assert";
import { providerEvent } from "../../scripts/events/provider_events.ts";
import { startReceiver, startWorker, takeTurn } from "../support/functions.ts";
import { eventually } from "../support/hang_limit.ts";
import { deliver } from "../support/send.ts";
import { connect } from "../support/tables.ts";

const sql = connect();
Deno.test.afterAll(() => sql.end());

Deno.test("Lemon Squeezy: a life in another order, with duplicates", async () => {
  await sql`truncate billing.processed_events, billing.failed_events`;
  const env = { PROVIDER_B_FORMAT: "lemon-squeezy" };
  await using receiver = await startReceiver({ env });
  await using worker = await startWorker(env);
  const id = `${crypto.getRandomValues(new Uint16Array(1))[0]}`;
  const start = Date.now() - 60_000;
  const [created, updated, payment, end] = [
    "subscription_created",
    "subscription_updated",
    "subscription_payment_failed",
    "subscription_expired",
  ].map((type, i) =>
    providerEvent("lemon-squeezy", type, {
      occurredAt: new Date(start + i * 1_000).toISOString(),
      subscription: id,
      customer: `c${id}`,
      account: "acc_1",
      plan: "7",
    })
  );
  const send = async (event?: object) =>
    (await deliver(receiver.url, event!, { env, provider: "b" })).status;

  // A payment that fails before there is a record heals. The end makes the record, and
  // late events and duplicates bring nothing back.
  assertEquals(await send(payment), 500);
  for (const event of [end, updated, created]) {
    assertEquals(await send(event), 200);
  }
  await eventually(async () => {
    await takeTurn(worker);
    const open = await sql`select from billing.open_failures`;
    return open.length === 0;
  });
  for (const event of [created, updated, payment, end]) {
    assertEquals(await send(event), 200);
  }
  const [record] = await sql`
    select status, account_id, plan_id,
      (select count(*)::int from billing.notifications n where n.subscription_id = s.id) as notices,
      (select count(*)::int from billing.processed_events where provider = 'b') as ledger
    from billing.subscriptions s where id = ${`ls_${id}`}`;
  assertEquals<unknown>({ ...record }, {
    status: "canceled",
    account_id: "acc_1",
    plan_id: "7",
    notices: 1,
    ledger: 4,
  });
});
