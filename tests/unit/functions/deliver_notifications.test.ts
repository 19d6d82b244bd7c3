import { assert, assertEquals, assertRejects } from "@std/assert";
import { createClient } from "../../../supabase/functions/_shared/billing/database.ts";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import type {
  Attempt,
  Channel,
  Notification,
} from "../../../supabase/functions/billing-worker/channels/channel.ts";
import { deliverNotifications } from "../../../supabase/functions/billing-worker/deliver_notifications.ts";
import type { ClaimedNotification } from "../../../supabase/functions/billing-worker/outbox.ts";
import { NOT_STATED } from "../../support/payment.ts";

function notification(number: number, wait_ms = 0): ClaimedNotification {
  return {
    id: `id_${number}`,
    lease_id: `lease_${number}`,
    provider: "a",
    event_id: `evt_${number}`,
    account_id: "acc_1",
    subscription_id: "sub_1",
    invoice_id: null,
    ...NOT_STATED,
    created_at: "2026-11-21T06:24:03.113987+00:00",
    wait_ms,
  };
}

interface Setting {
  /** By batch; each after the last is empty. */
  readonly batches?: readonly (readonly ClaimedNotification[])[];
  readonly due?: readonly ClaimedNotification[];
  readonly clock?: () => number;
  readonly channel?: Channel | undefined;
  readonly settle?: () => Response;
  /** Instead of the next batch, where it gives any. */
  readonly claim?: () => Response | undefined;
}

/** One run, and what happened in it, in order. */
async function run(
  { due = [], batches = [due], channel, settle, claim, clock = Date.now }:
    Setting,
) {
  const queue = [...batches];
  const happened: unknown[] = [];
  const lines: unknown[] = [];
  const database = createClient({
    supabaseUrl: "http://database.test",
    secretKey: "sb_secret_unit",
  }, {
    fetch: (input, init) => {
      const name = String(input).split("/").pop();
      const body = JSON.parse(String(init?.body));
      happened.push([name, body]);
      const answer = name === "claim_notifications"
        ? claim?.() ?? Response.json(queue.shift() ?? [])
        : settle?.() ?? Response.json(body.results.length);
      return Promise.resolve(answer);
    },
  });
  const counts = deliverNotifications<Notification>({
    database,
    channel: channel && {
      ...channel,
      send: (sent) => {
        happened.push(["send", sent.id]);
        return channel.send(sent);
      },
    },
    log: (...line) => lines.push(line),
    clock,
    sleep: (ms) => {
      happened.push(["sleep", ms]);
      return new Promise((resolve) => setTimeout(resolve, ms));
    },
  });
  await counts.catch(() => {});
  return { counts, happened, lines };
}

/** A channel that makes of the nth what the nth attempt says. */
function channelOf(attempts: Record<string, Attempt>): Channel {
  return {
    name: "webhook",
    destination: "hooks.test",
    send: ({ id }) => Promise.resolve(attempts[id] ?? { result: "sent" }),
  };
}

Deno.test("deliverNotifications() claims, sends and settles a batch", async () => {
  const due = [1, 2, 3, 4].map((number) => notification(number));
  const { counts, happened, lines } = await run({
    due,
    channel: channelOf({
      id_2: { result: "failed", error: "busy", retryAfterSeconds: 7 },
      id_3: { result: "dead", error: "gone" },
      id_4: { result: "undeliverable", error: "nowhere" },
    }),
  });
  assertEquals(await counts, {
    claimed: 4,
    sent: 1,
    failed: 1,
    dead: 1,
    undeliverable: 1,
    limited: 0,
    unsent: 0,
  });
  const claim = ["claim_notifications", claimOf("hooks.test")];
  assertEquals(happened, [
    claim,
    ["send", "id_1"],
    ["send", "id_2"],
    ["send", "id_3"],
    ["send", "id_4"],
    ["settle_notifications", {
      results: [
        settled(1, "sent", null, null),
        settled(2, "failed", "busy", 7),
        settled(3, "dead", "gone", null),
        settled(4, "undeliverable", "nowhere", null),
      ],
      p_destination: "hooks.test",
    }],
    claim,
  ]);
  assertEquals(lines, [
    logged(2, "failed", "busy"),
    logged(3, "dead", "gone"),
    logged(4, "undeliverable", "nowhere"),
  ]);
});

function batch(first: number): ClaimedNotification[] {
  return Array.from({ length: 20 }, (_, i) => notification(first + i));
}

Deno.test("deliverNotifications() goes on while anything is due, though some of it fails", async () => {
  const { counts } = await run({
    batches: [batch(0), [notification(20)], [notification(21)], [], batch(22)],
    channel: channelOf({
      id_3: { result: "undeliverable", error: "nowhere" },
      id_4: { result: "failed", error: "no" },
      id_20: { result: "undeliverable", error: "nowhere" },
    }),
  });
  const { claimed, sent, failed, undeliverable } = await counts;
  assertEquals([claimed, sent, failed, undeliverable], [22, 19, 1, 2]);
});

for (const result of ["failed", "dead"] as const) {
  Deno.test(`deliverNotifications() leaves the rest to the next run after a batch that is ${result}`, async () => {
    const attempts = batch(0).map(({ id }) => [id, { result, error: "no" }]);
    const { counts } = await run({
      batches: [batch(0), batch(20)],
      channel: channelOf(Object.fromEntries(attempts)),
    });
    assertEquals((await counts).claimed, 20);
  });
}

Deno.test("deliverNotifications() stops when the run's time is over", async () => {
  let timeMs = 0;
  const { counts } = await run({
    batches: [batch(0), batch(20), batch(40)],
    channel: channelOf({}),
    clock: () => (timeMs += 30_000),
  });
  assertEquals((await counts).claimed, 40);
});

Deno.test("deliverNotifications() stops after a thousand", async () => {
  const batches = Array.from({ length: 60 }, (_, i) => batch(20 * i));
  const { counts } = await run({ batches, channel: channelOf({}) });
  assertEquals((await counts).sent, 1_000);
});

Deno.test("deliverNotifications() sends nothing of a batch after 429, and asks for more", async () => {
  const { counts, happened, lines } = await run({
    batches: [
      [notification(1), notification(2, 30), notification(3, 60)],
      [notification(3)],
    ],
    channel: channelOf({
      id_2: { result: "limited", error: "slower", retryAfterSeconds: 7 },
    }),
  });
  const { claimed, sent, limited, unsent, failed } = await counts;
  assertEquals([claimed, sent, limited, unsent, failed], [4, 2, 1, 1, 0]);
  assertEquals(happened.map((step) => (step as unknown[]).slice(0, 2)), [
    ["claim_notifications", claimOf("hooks.test")],
    ["send", "id_1"],
    ["sleep", 30],
    ["sleep", 60],
    ["send", "id_2"],
    ["settle_notifications", {
      results: [
        settled(1, "sent", null, null),
        settled(2, "limited", "slower", 7),
        settled(3, "unsent", null, null),
      ],
      p_destination: "hooks.test",
    }],
    ["claim_notifications", claimOf("hooks.test")],
    ["send", "id_3"],
    ["settle_notifications", {
      results: [settled(3, "sent", null, null)],
      p_destination: "hooks.test",
    }],
    ["claim_notifications", claimOf("hooks.test")],
  ]);
  assertEquals(lines, [logged(2, "limited", "slower")]);
});

Deno.test("deliverNotifications() claims two seconds' worth at a time in two lanes, if there is a limit", async () => {
  const { counts, happened } = await run({
    batches: [[notification(1)], [notification(2)]],
    channel: { ...channelOf({}), perSecond: 3 },
  });
  assertEquals((await counts).sent, 2);
  const claims = happened.filter((step) =>
    (step as string[])[0] === "claim_notifications"
  );
  assertEquals(claims, [
    ...Array(4).fill(["claim_notifications", {
      ...claimOf("hooks.test"),
      p_limit: 6,
      p_per_second: 3,
    }]),
  ]);
  // The second claim does not wait for the first batch.
  assertEquals(happened.slice(0, 2), claims.slice(0, 2));
});

Deno.test("deliverNotifications() lets one lane end its batch if the other's database call fails", async () => {
  let claims = 0;
  const held = Promise.withResolvers<void>();
  const { counts, happened } = await run({
    batches: [[notification(1)]],
    channel: {
      ...channelOf({}),
      perSecond: 1,
      send: async () => {
        await held.promise;
        return { result: "sent" };
      },
    },
    claim: () => {
      if (++claims === 1) return undefined;
      held.resolve();
      return Response.json({ code: "57014", message: "" }, { status: 500 });
    },
  });
  await assertRejects(() => counts, DeliveryError);
  assertEquals(
    happened.some((step) => (step as string[])[0] === "settle_notifications"),
    true,
  );
});

function claimOf(p_destination: string) {
  return { p_limit: 20, p_lease_seconds: 60, p_destination };
}

function settled(
  number: number,
  ...[result, error, retry_after_seconds]: (string | number | null)[]
) {
  const { id, lease_id } = notification(number);
  return { id, lease_id, result, error, retry_after_seconds };
}

function logged(number: number, result: string, error: string) {
  return ["warn", "notification not delivered", {
    notification_id: `id_${number}`,
    event_id: `evt_${number}`,
    result,
    error,
  }];
}

Deno.test("deliverNotifications() sends a batch at once, and settles after the last", async () => {
  const due = batch(0);
  const all = Promise.withResolvers<void>();
  let underWay = 0;
  const { counts, happened } = await run({
    due,
    channel: {
      name: "webhook",
      destination: "hooks.test",
      send: async () => {
        // None returns before all have begun.
        if (++underWay === due.length) all.resolve();
        await all.promise;
        return { result: "sent" };
      },
    },
  });
  assertEquals((await counts).sent, 20);
  // After it the run finds nothing more.
  assertEquals(happened.slice(1, -2).map((step) => (step as string[])[0]), [
    ...Array(20).fill("send"),
  ]);
  assertEquals(happened.slice(-2).map((step) => (step as string[])[0]), [
    "settle_notifications",
    "claim_notifications",
  ]);
});

Deno.test("deliverNotifications() settles nothing if nothing is due", async () => {
  const { counts, happened } = await run({ channel: channelOf({}) });
  assertEquals((await counts).claimed, 0);
  assertEquals(happened.length, 1);
});

Deno.test("deliverNotifications() claims nothing without a channel", async () => {
  const { counts, happened, lines } = await run({ due: [notification(1)] });
  assertEquals((await counts).claimed, 0);
  assertEquals([happened, lines], [[], []]);
});

Deno.test("deliverNotifications() fails if the batch cannot be settled", async () => {
  const { counts, happened } = await run({
    due: [notification(1)],
    channel: channelOf({}),
    settle: () =>
      Response.json({ code: "57014", message: "" }, { status: 500 }),
  });
  const error = await assertRejects(() => counts, DeliveryError);
  assertEquals(error.code, "database_unavailable");
  assert(happened.length === 3);
});
