import { assertEquals, assertRejects } from "@std/assert";
import { createClient } from "../../../supabase/functions/_shared/billing/database.ts";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import type { Notification } from "../../../supabase/functions/billing-worker/channels/channel.ts";
import {
  accountEmail,
  claimAlerts,
  claimNotifications,
  type Result,
  settleAlerts,
  settleNotifications,
} from "../../../supabase/functions/billing-worker/outbox.ts";
import { OPENED, RESOLVED } from "../../support/alerts.ts";
import { NOT_STATED } from "../../support/payment.ts";

const NOTIFICATION: Notification = {
  id: "00ea7bdb-ac40-475d-b354-f87fe5d7c4c1",
  provider: "a",
  event_id: "evt_1",
  account_id: "acc_1",
  subscription_id: "sub_1",
  invoice_id: null,
  ...NOT_STATED,
  created_at: "2026-11-21T06:24:03.113987+00:00",
};

const OUTBOX = {
  p_lease_id: "11ea7bdb-ac40-475d-b354-f87fe5d7c4c1",
  p_destination: "hooks.test",
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

/** What is stored of an attempt. */
async function stored(attempt: Result): Promise<unknown> {
  const { database, calls } = fakeDatabase(() => Response.json(1));
  const message = NOTIFICATION;
  await settleNotifications(database, OUTBOX, [{ message, attempt }]);
  const [{ name, body } = {}, ...more] = calls;
  const { results: [result], ...rest } = body as { results: [object] };
  assertEquals([name, rest, more], [
    "billing_settle_notifications",
    OUTBOX,
    [],
  ]);
  return result;
}

Deno.test("claimNotifications() and claimAlerts() ask for the run and the receiver", async () => {
  const { database, calls } = fakeDatabase(() => Response.json([NOTIFICATION]));
  const claim = { ...OUTBOX, p_limit: 7 };
  assertEquals(await claimNotifications(database, claim), [NOTIFICATION]);
  await claimAlerts(database, OUTBOX);
  assertEquals(calls, [
    { name: "billing_claim_notifications", body: claim },
    { name: "billing_claim_alerts", body: OUTBOX },
  ]);
});

Deno.test("settleNotifications() stores the result of each", async () => {
  const cases: [attempt: Result, error: string | null, seconds?: number][] = [
    [{ result: "sent" }, null],
    [{ result: "unsent" }, null],
    [{ result: "failed", error: "no", retryAfterSeconds: 0 }, "no", 0],
    [{ result: "failed", error: "no", retryAfterSeconds: undefined }, "no"],
    [{ result: "dead", error: "gone" }, "gone"],
    [{ result: "limited", error: "429", retryAfterSeconds: 7 }, "429", 7],
    [{ result: "undeliverable", error: "nowhere" }, "nowhere"],
  ];
  for (const [attempt, error, retry_after_seconds = null] of cases) {
    const { result } = attempt;
    const { id } = NOTIFICATION;
    const expected = { id, result, error, retry_after_seconds };
    assertEquals(await stored(attempt), expected);
  }
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
  Deno.test(`settleNotifications() stores an error that has ${what} as Postgres can hold it`, async () => {
    const result = await stored({ result: "failed", error });
    assertEquals((result as { error: string }).error, kept);
  });
}

Deno.test("settleAlerts() stores what was told, as it was claimed", async () => {
  const { database, calls } = fakeDatabase(() => Response.json(1));
  const attempts: Result[] = [
    { result: "sent" },
    { result: "limited", error: "429", retryAfterSeconds: 7 },
    { result: "failed", error: "no" },
    { result: "dead", error: "gone" },
  ];
  const messages = [OPENED, RESOLVED, OPENED, RESOLVED];
  await settleAlerts(
    database,
    OUTBOX,
    attempts.map((attempt, i) => ({ message: messages[i]!, attempt })),
  );
  const told = ({ kind, alert }: typeof OPENED, result: string) => ({
    result,
    kind,
    alert,
    retry_after_seconds: result === "limited" ? 7 : null,
  });
  const results = [
    told(OPENED, "sent"),
    told(RESOLVED, "limited"),
    told(OPENED, "failed"),
    told(RESOLVED, "failed"),
  ];
  assertEquals<unknown>(calls, [
    { name: "billing_settle_alerts", body: { ...OUTBOX, results } },
  ]);
});

Deno.test("accountEmail() returns the address, or null", async () => {
  for (const address of ["owner@example.com", null]) {
    const { database, calls } = fakeDatabase(() => Response.json(address));
    assertEquals(await accountEmail(database, "acc_1"), address);
    const body = { account_id: "acc_1" };
    assertEquals(calls, [{ name: "billing_account_email", body }]);
  }
});

Deno.test("outbox functions fail with the database", async () => {
  const { database } = fakeDatabase(() =>
    Response.json({ code: "57014", message: "canceling" }, { status: 500 })
  );
  const failing: (() => Promise<unknown>)[] = [
    () => claimNotifications(database, { ...OUTBOX, p_limit: 1 }),
    () => settleNotifications(database, OUTBOX, []),
    () => claimAlerts(database, OUTBOX),
    () => settleAlerts(database, OUTBOX, []),
    () => accountEmail(database, "acc_1"),
  ];
  for (const call of failing) await assertRejects(call, DeliveryError);
});
