import { assertEquals, assertRejects } from "@std/assert";
import { createClient } from "../../../supabase/functions/_shared/billing/database.ts";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import type { Channel } from "../../../supabase/functions/billing-worker/channels/channel.ts";
import {
  accountEmail,
  type ClaimedNotification,
  claimNotifications,
  openAlerts,
  type Result,
  settleNotifications,
} from "../../../supabase/functions/billing-worker/outbox.ts";
import { NOT_STATED } from "../../support/payment.ts";

const NOTIFICATION: ClaimedNotification = {
  id: "00ea7bdb-ac40-475d-b354-f87fe5d7c4c1",
  lease_id: "11ea7bdb-ac40-475d-b354-f87fe5d7c4c1",
  provider: "a",
  event_id: "evt_1",
  account_id: "acc_1",
  subscription_id: "sub_1",
  invoice_id: null,
  ...NOT_STATED,
  created_at: "2026-11-21T06:24:03.113987+00:00",
  wait_ms: 0,
};

const CHANNEL: Channel = {
  name: "webhook",
  destination: "hooks.test",
  send: () => Promise.resolve({ result: "sent" }),
};

/** A database that answers so, and the calls that it got. */
function fakeDatabase(answer: () => Response) {
  const calls: { name: string | undefined; body: unknown }[] = [];
  const database = createClient({
    supabaseUrl: "http://database.test",
    secretKey: "sb_secret_unit",
  }, {
    fetch: (input, init) => {
      const name = String(input).split("/").pop();
      calls.push({ name, body: JSON.parse(String(init?.body)) });
      return Promise.resolve(answer());
    },
  });
  return { database, calls };
}

function broken(): Response {
  return Response.json({ code: "57014", message: "canceling statement" }, {
    status: 500,
  });
}

/** What is written of an attempt. */
async function written(attempt: Result): Promise<unknown> {
  const { database, calls } = fakeDatabase(() => Response.json(1));
  const attempts = [{ notification: NOTIFICATION, attempt }];
  assertEquals(
    await settleNotifications(database, { attempts, destination: "tests" }),
    1,
  );
  assertEquals(calls.map(({ name }) => name), ["settle_notifications"]);
  const { results, p_destination } = calls[0]?.body as {
    results: Record<string, unknown>[];
    p_destination: string;
  };
  assertEquals(p_destination, "tests");
  const [{ id, lease_id, ...rest } = {}, ...more] = results;
  assertEquals([id, lease_id, more], [
    NOTIFICATION.id,
    NOTIFICATION.lease_id,
    [],
  ]);
  return rest;
}

Deno.test("claimNotifications() asks for a batch, leased for a minute", async () => {
  const { database, calls } = fakeDatabase(() => Response.json([NOTIFICATION]));
  const claim = (channel: Channel) =>
    claimNotifications(database, { limit: 7, channel });
  assertEquals(await claim(CHANNEL), [NOTIFICATION]);
  assertEquals(await claim({ ...CHANNEL, perSecond: 3 }), [NOTIFICATION]);
  const body = {
    p_limit: 7,
    p_lease_seconds: 60,
    p_destination: "hooks.test",
  };
  assertEquals(calls, [
    { name: "claim_notifications", body },
    { name: "claim_notifications", body: { ...body, p_per_second: 3 } },
  ]);
});

Deno.test("claimNotifications() asks for alerts if the channel sends alerts", async () => {
  const { database, calls } = fakeDatabase(() => Response.json([]));
  await claimNotifications(database, {
    limit: 7,
    channel: { ...CHANNEL, alerts: true },
  });
  assertEquals(calls.map(({ body }) => body), [{
    p_limit: 7,
    p_lease_seconds: 60,
    p_destination: "hooks.test",
    p_alerts: true,
  }]);
});

Deno.test("openAlerts() asks the database to write what is due", async () => {
  const { database, calls } = fakeDatabase(() => Response.json(0));
  await openAlerts(database);
  assertEquals(calls.map(({ name }) => name), ["open_alerts"]);
});

Deno.test("settleNotifications() writes what became of each", async () => {
  assertEquals(await written({ result: "sent" }), {
    result: "sent",
    error: null,
    retry_after_seconds: null,
  });
  assertEquals(
    await written({ result: "failed", error: "no", retryAfterSeconds: 0 }),
    { result: "failed", error: "no", retry_after_seconds: 0 },
  );
  assertEquals(
    await written({
      result: "failed",
      error: "no",
      retryAfterSeconds: undefined,
    }),
    { result: "failed", error: "no", retry_after_seconds: null },
  );
  assertEquals(await written({ result: "dead", error: "gone" }), {
    result: "dead",
    error: "gone",
    retry_after_seconds: null,
  });
  assertEquals(
    await written({ result: "limited", error: "429", retryAfterSeconds: 7 }),
    { result: "limited", error: "429", retry_after_seconds: 7 },
  );
  assertEquals(await written({ result: "unsent" }), {
    result: "unsent",
    error: null,
    retry_after_seconds: null,
  });
  assertEquals(await written({ result: "undeliverable", error: "nowhere" }), {
    result: "undeliverable",
    error: "nowhere",
    retry_after_seconds: null,
  });
});

for (
  const [what, error, kept] of [
    ["a zero byte", "a\0b", "ab"],
    ["a lone surrogate", "a\ud83db", "a\ufffdb"],
    [
      "a pair that the limit divides",
      `${"x".repeat(999)}😀`,
      `${"x".repeat(999)}\ufffd`,
    ],
    ["no end", "x".repeat(100_000), "x".repeat(1_000)],
  ] as const
) {
  Deno.test(`settleNotifications() writes an error that has ${what} as Postgres can hold it`, async () => {
    assertEquals(await written({ result: "failed", error }), {
      result: "failed",
      error: kept,
      retry_after_seconds: null,
    });
  });
}

Deno.test("accountEmail() returns the address, or null", async () => {
  for (const address of ["owner@example.com", null]) {
    const { database, calls } = fakeDatabase(() => Response.json(address));
    assertEquals(await accountEmail(database, "acc_1"), address);
    assertEquals(calls, [{
      name: "account_email",
      body: { account_id: "acc_1" },
    }]);
  }
});

Deno.test("outbox functions fail with the database", async () => {
  const { database } = fakeDatabase(broken);
  await assertRejects(
    () => claimNotifications(database, { limit: 1, channel: CHANNEL }),
    DeliveryError,
  );
  await assertRejects(
    () =>
      settleNotifications(database, {
        attempts: [
          { notification: NOTIFICATION, attempt: { result: "sent" } },
        ],
        destination: "tests",
      }),
    DeliveryError,
  );
  await assertRejects(() => openAlerts(database), DeliveryError);
  await assertRejects(
    () => accountEmail(database, "acc_1"),
    DeliveryError,
    "account_email failed",
  );
});
