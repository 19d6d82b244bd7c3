/**
 * The providers other than Stripe, over HTTP: a life of a subscription, signed as they
 * sign. Their fields are in tests/unit/functions/formats.test.ts.
 */
import { assertEquals } from "@std/assert";
import {
  providerSettings,
  signatureHeaders,
} from "../../scripts/common/sign.ts";
import {
  type Provider,
  providerEvent,
} from "../../scripts/events/provider_events.ts";
import type { JsonObject } from "../../scripts/events/templates.ts";
import { startReceiver, startWorker, takeTurn } from "../support/functions.ts";
import { eventually } from "../support/hang_limit.ts";
import { post } from "../support/send.ts";
import { connect } from "../support/tables.ts";

const sql = connect();
Deno.test.afterAll(() => sql.end());

const SECRETS: Record<Provider, string> = {
  paddle: "pdl_ntfset_0123456789abcdef",
  polar: "polar_whs_0123456789abcdef",
  dodo: "whsec_c2VjcmV0LW9mLWRvZG8tcGF5bWVudHM=",
  "lemon-squeezy": "lemon-squeezy-secret",
};
/** The types of a creation, an update, a failed payment and an end; Polar's third updates. */
const LIVES: Record<Provider, string[]> = {
  paddle: [
    "subscription.created",
    "subscription.updated",
    "transaction.payment_failed",
    "subscription.canceled",
  ],
  polar: [
    "subscription.created",
    "subscription.updated",
    "subscription.past_due",
    "subscription.revoked",
  ],
  dodo: [
    "subscription.active",
    "subscription.renewed",
    "payment.failed",
    "subscription.cancelled",
  ],
  "lemon-squeezy": [
    "subscription_created",
    "subscription_updated",
    "subscription_payment_failed",
    "subscription_expired",
  ],
};

interface Sent {
  readonly id: string;
  readonly event: JsonObject;
}

async function recordOf(provider: Provider, id: string) {
  const key = provider === "lemon-squeezy" ? `ls_${id}` : id;
  const [row] = await sql`
    select status, account_id, plan_id,
      (select count(*)::int from billing.notifications n where n.subscription_id = s.id) as notices,
      (select count(*)::int from billing.processed_events p where p.provider = 'b') as ledger
    from billing.subscriptions s where id = ${key}`;
  return { ...row };
}

const START = Date.now() - 60_000;

function life(provider: Provider, id: string) {
  return LIVES[provider].map((type, i) => ({
    id: `${id}_${i}`,
    event: providerEvent(provider, type, {
      id: `${id}_${i}`,
      occurredAt: new Date(START + i * 1_000).toISOString(),
      subscription: id,
      customer: `c${id}`,
      account: `acc_${id}`,
      plan: "7",
    }),
  })) as [Sent, Sent, Sent, Sent];
}

for (const provider of Object.keys(LIVES) as Provider[]) {
  Deno.test(`${provider}: a life in another order, with duplicates`, async () => {
    await sql`truncate billing.processed_events, billing.failed_events`;
    const env = {
      PROVIDER_B_FORMAT: provider,
      PROVIDER_B_SIGNING_SECRET: SECRETS[provider],
    };
    await using receiver = await startReceiver({ env });
    await using worker = await startWorker({ PROVIDER_B_FORMAT: provider });

    async function send({ id, event }: Sent) {
      const body = JSON.stringify(event);
      const settings = providerSettings(env, "b");
      const headers = signatureHeaders({ ...settings, body, id });
      return (await post(receiver.url, { headers, body })).status;
    }

    // A payment that fails before there is a record heals. The end makes the record, and
    // late events and duplicates bring nothing back.
    const id = `${crypto.getRandomValues(new Uint16Array(1))[0]}`;
    const events = life(provider, id);
    const [created, updated, payment, end] = events;
    for (const sent of [payment, end, updated, created]) {
      const status = sent === payment ? 500 : 200;
      assertEquals(await send(sent), status, sent.id);
    }
    await eventually(async () => {
      await takeTurn(worker);
      const open = await sql`
        select from billing.failed_events where resolved_at is null`;
      return open.length === 0;
    });
    for (const sent of events) assertEquals(await send(sent), 200);
    assertEquals<unknown>(await recordOf(provider, id), {
      status: "canceled",
      account_id: `acc_${id}`,
      plan_id: "7",
      notices: 1,
      ledger: 4,
    });
  });
}
