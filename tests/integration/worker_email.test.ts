/**
 * Notifications by e-mail: the worker in its own process, and a stand-in for
 * Resend's API.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { waitUntil } from "../../scripts/common/wait_until.ts";
import { HANG_LIMIT_MS } from "../support/hang_limit.ts";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { MAIL_API_KEY, startMailApi } from "../support/mail_api.ts";
import { startOwnStack } from "../support/own_stack.ts";
import { deliver, post } from "../support/send.ts";
import {
  makeDue,
  type OutboxRow,
  outboxRow,
  oweNotifications,
  settledRow,
} from "../support/outbox.ts";

// A stack of its own: it gets users of Supabase Auth, which the others' must
// not have.
Deno.test("with Supabase Auth the account's user gets the mail, once", async (test) => {
  await using api = startMailApi();
  await using own = await startOwnStack({ env: api.env });
  const { stack, sql, log } = own;
  /** Another run may have the queue, so one wake may not be enough. */
  const wakeUntil = async (
    event: string,
    isDone: (row: OutboxRow) => boolean,
  ) => {
    await waitUntil(async () => {
      const { status, body } = await post(stack.urls.worker, {
        headers: { apikey: stack.keys.secret },
      });
      assertEquals(status, 200, body);
      return isDone(await outboxRow(sql, event));
    }, { timeoutMs: HANG_LIMIT_MS });
    return await outboxRow(sql, event);
  };
  const isSettled = ({ status }: OutboxRow) => status !== "pending";
  const hasFailed = ({ last_error }: OutboxRow) => last_error !== null;
  const account = crypto.randomUUID();
  await sql`create table auth.users (id uuid primary key, email text)`;
  await sql`insert into auth.users values (${account}, 'owner@example.com')`;

  await test.step("a failed payment is mailed to the user", async () => {
    const subscription = uniqueId("sub");
    const creation = subscriptionEvent("customer.subscription.created", {
      subscription,
      account,
    });
    const event = invoiceEvent({ subscription, invoice: "in_7" });
    for (const sent of [creation, event, event]) {
      assertEquals((await deliver(stack.urls.webhook, sent)).status, 200);
    }
    // The webhook has woken the worker, once.
    const row = await settledRow(sql, event.id);
    assertEquals([row.status, row.attempts], ["sent", 1]);
    assertEquals(api.requests.length, 1);
    const { headers, fields } = api.requests[0] ?? {};
    assertEquals(headers?.get("idempotency-key"), row.id);
    assertEquals(headers?.get("authorization"), `Bearer ${MAIL_API_KEY}`);
    assertEquals([fields?.from, fields?.to, fields?.subject], [
      "Billing <billing@example.com>",
      "owner@example.com",
      "Your payment of €19.00 failed",
    ]);
    for (const content of [fields?.text, fields?.html]) {
      assertStringIncludes(
        `${content}`,
        `Invoice: in_7, Subscription: ${subscription}`,
      );
    }
  });

  await test.step("an account that is no user is undeliverable", async () => {
    for (const nobody of [crypto.randomUUID(), "acc_1"]) {
      const [event] = await oweNotifications(sql, { account: nobody });
      const { status } = await wakeUntil(event, isSettled);
      assertEquals(status, "undeliverable");
    }
    assertEquals(api.requests.length, 1);
  });

  await test.step("429 is tried again when it says, with the same key", async () => {
    const [event] = await oweNotifications(sql, { account });
    api.answerWith(() =>
      Response.json(
        { statusCode: 429, name: "rate_limit_exceeded", message: "Slower" },
        { status: 429, headers: { "retry-after": "600" } },
      )
    );
    const begin = Date.now();
    const row = await wakeUntil(event, hasFailed);
    assertEquals(
      [row.status, row.attempts, row.last_error],
      ["pending", 0, "Resend: rate_limit_exceeded: Slower"],
    );
    const wait = row.next_attempt_at.getTime() - begin;
    assert(wait >= 599_000 && wait < 660_000, `${wait} ms`);

    api.answerWith(() => Response.json({ id: "mail_2" }));
    await makeDue(sql, event);
    assertEquals((await wakeUntil(event, isSettled)).status, "sent");
    assertEquals(
      api.requests.slice(1).map(({ key }) => key),
      [row.id, row.id],
    );
  });

  await test.step("a reason that Postgres cannot hold keeps nothing from being settled", async () => {
    const events = await oweNotifications(sql, { count: 3, account });
    api.answerWith(() =>
      Response.json({ name: "a\0b", message: "c\ud83d" }, { status: 500 })
    );
    for (const event of events) {
      const row = await wakeUntil(event, hasFailed);
      assertEquals(row.last_error, "Resend: ab: c\ufffd");
    }
  });

  await test.step("the log has no key", () => {
    assertStringIncludes(log.join("\n"), "rate_limit_exceeded");
    assert(!log.join("\n").includes(MAIL_API_KEY));
  });
});
