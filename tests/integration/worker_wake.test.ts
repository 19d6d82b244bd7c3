/**
 * An applied payment failure wakes the worker, so that the account is notified
 * at once. The provider does not wait for it.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { localKeys } from "../../scripts/common/keys.ts";
import { waitUntil } from "../../scripts/common/wait_until.ts";
import { HANG_LIMIT_MS } from "../support/hang_limit.ts";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { paymentIntentEvent } from "../../scripts/events/payment_intent_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import {
  NOTIFICATION_SECRET,
  startNotifiedEndpoint,
  URL_SECRET,
} from "../support/notified_endpoint.ts";
import { startOwnStack } from "../support/own_stack.ts";
import { startReceiver } from "../support/receiver.ts";
import { deliver } from "../support/send.ts";
import { setting } from "../support/test_environment.ts";
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

/**
 * The project's URL as a receiver sees it: the stack's API, with a worker that
 * counts its calls and gives the answers of a test.
 */
async function startRouter(worker: () => Response | Promise<Response>) {
  const { secret } = await localKeys();
  const apiUrl = setting("TEST_API_URL");
  let calls = 0;
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    async (request) => {
      const { pathname, search } = new URL(request.url);
      if (pathname !== "/functions/v1/billing-worker") {
        const { method, headers } = request;
        const body = await request.arrayBuffer();
        return await fetch(apiUrl + pathname + search, {
          method,
          headers,
          body,
        });
      }
      assertEquals(
        [request.method, request.headers.get("apikey")],
        ["POST", secret],
      );
      calls++;
      return await worker();
    },
  );
  return {
    env: { SUPABASE_URL: `http://127.0.0.1:${server.addr.port}` },
    calls: () => calls,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

Deno.test("only a payment failure that was applied, now or before, wakes the worker", async () => {
  await using router = await startRouter(() => Response.json({}));
  await using receiver = await startReceiver({ env: router.env });
  const subscription = uniqueId("sub");
  const created = 1_770_000_000;
  const failure = invoiceEvent({ subscription, created: created + 30 });
  const calls: number[] = [];
  for (
    const [event, status] of [
      [failure, 500],
      [
        subscriptionEvent("customer.subscription.created", {
          subscription,
          created,
        }),
        200,
      ],
      [
        subscriptionEvent("customer.subscription.updated", {
          subscription,
          created: created + 10,
        }),
        200,
      ],
      [paymentIntentEvent({}), 200],
      [failure, 200],
      [failure, 200],
      [
        subscriptionEvent("customer.subscription.deleted", {
          subscription,
          created: created + 60,
        }),
        200,
      ],
    ] as const
  ) {
    assertEquals((await deliver(receiver.url, event)).status, status);
    if (event === failure && status === 200) {
      const before = calls.at(-1) ?? 0;
      await waitUntil(() => router.calls() > before, {
        timeoutMs: HANG_LIMIT_MS,
      });
    }
    calls.push(router.calls());
  }
  // The second delivery is a duplicate: that the first had its answer, and woke
  // anybody, is not known.
  assertEquals(calls, [0, 0, 0, 0, 1, 2, 2]);
  // Calls go one after the other: one too many would be counted by now.
  await deliver(receiver.url, invoiceEvent({ subscription }));
  await waitUntil(() => router.calls() > 2, { timeoutMs: HANG_LIMIT_MS });
  assertEquals(router.calls(), 3);
});

Deno.test("the provider is answered while the worker hangs", async () => {
  const held = Promise.withResolvers<void>();
  await using router = await startRouter(async () => {
    await held.promise;
    return Response.json({});
  });
  await using receiver = await startReceiver({ env: router.env });
  const subscription = uniqueId("sub");
  for (
    const event of [
      subscriptionEvent("customer.subscription.created", { subscription }),
      invoiceEvent({ subscription }),
      invoiceEvent({ subscription }),
    ]
  ) {
    assertEquals((await deliver(receiver.url, event)).status, 200);
  }
  await waitUntil(() => router.calls() === 1, { timeoutMs: HANG_LIMIT_MS });
  assertEquals(router.calls(), 1);
  held.resolve();
  // The wake of the second failure, which came meanwhile.
  await waitUntil(() => router.calls() === 2, { timeoutMs: HANG_LIMIT_MS });
  assertEquals(router.calls(), 2);
});

Deno.test("the provider is answered if there is no worker, and the log says so", async () => {
  await using receiver = await startReceiver();
  const subscription = uniqueId("sub");
  for (
    const event of [
      subscriptionEvent("customer.subscription.created", { subscription }),
      invoiceEvent({ subscription }),
    ]
  ) {
    assertEquals((await deliver(receiver.url, event)).status, 200);
  }
  const line = await receiver.logged(({ message }) =>
    message === "worker not woken: its schedule will deliver"
  );
  assertEquals(line.level, "warn");
  const { secret } = await localKeys();
  assert(!receiver.output().includes(secret), receiver.output());
});
