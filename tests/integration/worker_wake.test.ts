/**
 * An applied payment failure wakes the worker, so that the account is notified
 * at once. The provider does not wait for it.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import {
  NOTIFICATION_SECRET,
  startNotifiedEndpoint,
  URL_SECRET,
} from "../support/notified_endpoint.ts";
import { startOwnStack } from "../support/own_stack.ts";
import { deliver } from "../support/send.ts";
import { settledRow } from "../support/outbox.ts";

/** A second or less, if the machine is neither slow nor busy. */
const SOON_MS = 8_000;

Deno.test("a failed payment is delivered without any other call", async (test) => {
  await using endpoint = startNotifiedEndpoint();
  await using own = await startOwnStack({ env: endpoint.env });
  const { stack, sql, log } = own;
  const subscription = uniqueId("sub");
  const send = async (event: object) => {
    assertEquals((await deliver(stack.urls.webhook, event)).status, 200);
  };
  await send(
    subscriptionEvent("customer.subscription.created", { subscription }),
  );

  await test.step("at once", async () => {
    const event = invoiceEvent({ subscription });
    const begin = performance.now();
    await send(event);
    await endpoint.arrived(event.id);
    const took = performance.now() - begin;
    assert(took < SOON_MS, `${took} ms`);
    const row = await settledRow(sql, event.id);
    assertEquals([row.status, row.attempts], ["sent", 1]);
  });

  await test.step("while the account's endpoint hangs, the provider is answered", async () => {
    const held = Promise.withResolvers<void>();
    endpoint.answerWith(async () => {
      await held.promise;
      return new Response("OK");
    });
    const first = invoiceEvent({ subscription });
    await send(first);
    await endpoint.arrived(first.id);
    // The call to the worker is under way, and the next wakes wait for it.
    const more = Array.from(
      { length: 5 },
      () => invoiceEvent({ subscription }),
    );
    for (const event of more) await send(event);
    assertEquals(endpoint.about(more[0]?.id ?? "").length, 0);

    held.resolve();
    for (const { id } of [first, ...more]) {
      const row = await settledRow(sql, id);
      assertEquals([row.status, row.attempts], ["sent", 1]);
      assertEquals(endpoint.about(id).length, 1);
    }
  });

  await test.step("the logs of webhook and worker have no secret", () => {
    const text = log.join("\n");
    assert(text.includes("notifications delivered"), text);
    const { secret, serviceRole } = stack.keys;
    for (
      const hidden of [
        NOTIFICATION_SECRET,
        URL_SECRET,
        secret,
        serviceRole,
      ]
    ) {
      assert(!text.includes(hidden), `${hidden} is in the log`);
    }
  });
});
