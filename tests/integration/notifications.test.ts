/** From a failed payment to the account's endpoint or mailbox, with workers of their own. */
import { assert, assertEquals } from "@std/assert";
import { invoiceEvent, uniqueId } from "../../scripts/events/templates.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { localKeys } from "../../scripts/local_stack/keys.ts";
import {
  MAIL_API_KEY,
  startMailApi,
  startNotifiedEndpoint,
} from "../support/notified.ts";
import { outboxRow, oweNotifications, settledRow } from "../support/queues.ts";
import { type ServedFunction, startWorker } from "../support/functions.ts";
import { deliver, post } from "../support/send.ts";
import { startOwnStack } from "../support/stacks.ts";
import { connect } from "../support/tables.ts";

const sql = connect();
Deno.test.afterAll(() => sql.end());

Deno.test("a worker delivers only for callers with a secret key", async () => {
  const { secret, publishable, anon, serviceRole } = await localKeys();
  const second = "sb_secret_second_0123456789abcdefghij_klmnopqr";
  await using endpoint = startNotifiedEndpoint();
  await using named = await startWorker({
    ...endpoint.env,
    SUPABASE_SECRET_KEYS: JSON.stringify({
      automation: second,
      default: secret,
    }),
  });
  // With the key of older projects alone.
  await using legacy = await startWorker({
    ...endpoint.env,
    SUPABASE_SECRET_KEYS: "",
    SUPABASE_PUBLISHABLE_KEYS: "",
  });
  async function call(worker: ServedFunction, headers: HeadersInit) {
    const answer = await post(worker.url, { headers });
    assertEquals(answer.headers.get("access-control-allow-origin"), null);
    for (const key of [secret, publishable, anon, serviceRole]) {
      assert(!answer.body.includes(key), answer.body);
    }
    return answer.status;
  }

  const [event] = await oweNotifications(sql);
  for (
    const headers of [
      {},
      { apikey: secret.slice(0, -1) },
      { apikey: publishable },
      { authorization: `Bearer ${serviceRole}` },
      { apikey: publishable, authorization: `Bearer ${secret}` },
    ]
  ) {
    const answers = [await call(named, headers), await call(legacy, headers)];
    assertEquals(answers, [401, 401], JSON.stringify(headers));
  }
  assertEquals(await call(named, { apikey: serviceRole }), 401);
  assertEquals(await call(legacy, { apikey: secret }), 401);
  assertEquals((await outboxRow(sql, event)).attempts, 0);

  for (
    const [worker, apikey] of [
      [named, secret],
      [named, second],
      [legacy, serviceRole],
    ] as const
  ) {
    const [event] = await oweNotifications(sql);
    assertEquals(await call(worker, { apikey }), 200);
    assertEquals((await outboxRow(sql, event)).status, "sent");
  }
});

Deno.test("an account is mailed at the webhook's wake, and no log has the address", async () => {
  await using api = startMailApi();
  await using started = await startOwnStack({ env: api.env });
  const { stack, sql, log } = started;
  const account = crypto.randomUUID();
  const address = "owner@example.com";
  await sql`insert into auth.users values (${account}, ${address})`;

  const rows = [];
  for (const owner of [account, crypto.randomUUID()]) {
    const subscription = uniqueId("sub");
    const creation = subscriptionEvent("customer.subscription.created", {
      subscription,
      account: owner,
    });
    const invoice = invoiceEvent({ subscription });
    // One overtakes its creation, which has it retried.
    const isEarly = owner === account;
    const events = isEarly ? [invoice, creation] : [creation, invoice];
    const statuses = [];
    for (const event of events) {
      statuses.push((await deliver(stack.urls.webhook, event)).status);
    }
    assertEquals(statuses, [isEarly ? 500 : 200, 200]);
    rows.push(await settledRow(sql, invoice.id));
  }

  const settled = rows.map(({ status, attempts }) => [status, attempts]);
  assertEquals(settled, [["sent", 1], ["undeliverable", 1]]);
  const mails = api.requests.map(({ key, fields }) => [key, fields["to"]]);
  assertEquals(mails, [[rows[0]!["id"], address]]);

  const output = log.join("\n");
  assert(output.includes("notifications delivered"), output);
  for (const hidden of [MAIL_API_KEY, address, stack.keys.secret]) {
    assert(!output.includes(hidden), `${hidden} is in the log`);
  }
});
