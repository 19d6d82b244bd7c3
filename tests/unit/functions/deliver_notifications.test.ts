import { assertEquals, assertRejects } from "@std/assert";
import { createClient } from "../../../supabase/functions/_shared/billing/database.ts";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import type {
  Alert,
  Attempt,
  Channel,
  Notification,
} from "../../../supabase/functions/billing-worker/channels/channel.ts";
import {
  deliverAlerts,
  deliverNotifications,
  pacer,
} from "../../../supabase/functions/billing-worker/deliver_notifications.ts";
import { OPENED, RESOLVED } from "../../support/alerts.ts";
import { NOT_STATED } from "../../support/payment.ts";

const LEASE = "00ea7bdb-ac40-475d-b354-f87fe5d7c4c1";
const OUTBOX = { p_lease_id: LEASE, p_destination: "hooks.test" };
const CLAIM = ["billing_claim_notifications", { ...OUTBOX, p_limit: 20 }];
const NOTHING = {
  claimed: 0,
  sent: 0,
  failed: 0,
  dead: 0,
  undeliverable: 0,
  limited: 0,
  unsent: 0,
};

function notification(number: number): Notification {
  return {
    id: `id_${number}`,
    provider: "a",
    event_id: `evt_${number}`,
    account_id: "acc_1",
    subscription_id: "sub_1",
    invoice_id: null,
    ...NOT_STATED,
    created_at: "2026-11-21T06:24:03.113987+00:00",
  };
}

function batch(first: number, length = 20): Notification[] {
  return Array.from({ length }, (_, i) => notification(first + i));
}

interface Setting {
  /** By claim; each after the last is empty. */
  readonly batches?: readonly (readonly (Notification | Alert)[])[];
  readonly channel?: Channel | undefined;
  readonly alertChannel?: Channel<Alert>;
  readonly limit?: number;
  readonly clock?: () => number;
  readonly sleep?: (ms: number) => Promise<void>;
  readonly settle?: () => Response;
}

/** What a run needs, and what happens in it, in order. */
function setUp(
  { batches = [], channel, alertChannel, settle, ...setting }: Setting,
) {
  const { clock = () => 0, sleep = () => Promise.resolve() } = setting;
  const queue = [...batches];
  const happened: unknown[][] = [];
  const lines: unknown[] = [];
  const database = createClient({
    supabaseUrl: "http://database.test",
    secretKey: "sb_secret_unit",
  }, {
    fetch: (input, init) => {
      const name = String(input).split("/").pop() ?? "";
      const body = JSON.parse(String(init?.body));
      happened.push([name, body]);
      const answer = name.includes("_claim_")
        ? Response.json(queue.shift() ?? [])
        : settle?.() ?? Response.json(body.results.length);
      return Promise.resolve(answer);
    },
  });
  const options = {
    database,
    leaseId: LEASE,
    channel: channel && {
      ...channel,
      send: (sent: Notification) => {
        happened.push(["send", sent.id]);
        return channel.send(sent);
      },
    },
    alertChannel,
    pace: pacer(channel, { clock, sleep }),
    endMs: clock() + 60_000,
    log: (...line: unknown[]) => void lines.push(line),
    clock,
    ...(setting.limit !== undefined && { limit: setting.limit }),
  };
  return { options, happened, lines };
}

/** One run. */
async function run(setting: Setting) {
  const { options, happened, lines } = setUp(setting);
  const counts = deliverNotifications(options);
  await counts.catch(() => {});
  return { counts, happened, lines };
}

/** A channel that makes of the nth what the nth attempt says. */
function channelOf(
  attempts: Record<string, Attempt>,
  perSecond?: number,
): Channel {
  return {
    name: "webhook",
    destination: "hooks.test",
    ...(perSecond !== undefined && { perSecond }),
    send: ({ id }) => Promise.resolve(attempts[id] ?? { result: "sent" }),
  };
}

function settled(
  number: number,
  ...[result, error = null, retry_after_seconds = null]:
    (string | number | null)[]
) {
  return { id: `id_${number}`, result, error, retry_after_seconds };
}

function logged(number: number, result: string, error: string) {
  return ["warn", "notification not delivered", {
    notification_id: `id_${number}`,
    event_id: `evt_${number}`,
    result,
    error,
  }];
}

Deno.test("deliverNotifications() claims, sends and settles a batch", async () => {
  const { counts, happened, lines } = await run({
    batches: [batch(1, 4)],
    channel: channelOf({
      id_2: { result: "failed", error: "busy", retryAfterSeconds: 7 },
      id_3: { result: "dead", error: "gone" },
      id_4: { result: "undeliverable", error: "nowhere" },
    }),
  });
  assertEquals(await counts, {
    ...NOTHING,
    claimed: 4,
    sent: 1,
    failed: 1,
    dead: 1,
    undeliverable: 1,
  });
  assertEquals(happened, [
    CLAIM,
    ["send", "id_1"],
    ["send", "id_2"],
    ["send", "id_3"],
    ["send", "id_4"],
    ["billing_settle_notifications", {
      ...OUTBOX,
      results: [
        settled(1, "sent"),
        settled(2, "failed", "busy", 7),
        settled(3, "dead", "gone"),
        settled(4, "undeliverable", "nowhere"),
      ],
    }],
    CLAIM,
  ]);
  assertEquals(lines, [
    logged(2, "failed", "busy"),
    logged(3, "dead", "gone"),
    logged(4, "undeliverable", "nowhere"),
  ]);
});

Deno.test("deliverNotifications() goes on while anything is due, though some of it fails", async () => {
  const { counts } = await run({
    batches: [batch(0), batch(20, 1), batch(21, 1), [], batch(22)],
    channel: channelOf({
      id_3: { result: "undeliverable", error: "nowhere" },
      id_4: { result: "failed", error: "no" },
      id_20: { result: "undeliverable", error: "nowhere" },
    }),
  });
  const { claimed, sent, failed, undeliverable } = await counts;
  assertEquals([claimed, sent, failed, undeliverable], [22, 19, 1, 2]);
});

for (const result of ["failed", "dead", "limited"] as const) {
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
    // Looked at when the run begins, and before each batch.
    clock: () => (timeMs += 25_000),
  });
  assertEquals((await counts).claimed, 40);
});

for (const [limit, sent] of [[undefined, 1_000], [30, 40], [0, 0]] as const) {
  Deno.test(`deliverNotifications() stops after ${sent} if its limit is ${limit}`, async () => {
    const batches = Array.from({ length: 60 }, (_, i) => batch(20 * i));
    const { counts } = await run({
      batches,
      channel: channelOf({}),
      ...(limit !== undefined && { limit }),
    });
    assertEquals((await counts).sent, sent);
  });
}

Deno.test("pacer() gives out times on one schedule, and none in the past", async () => {
  let timeMs = 1_000;
  const waits: number[] = [];
  const pace = pacer({ perSecond: 2 }, {
    clock: () => timeMs,
    sleep: (ms) => Promise.resolve(void waits.push(ms)),
  });
  for (let i = 0; i < 3; i++) await pace();
  // What a claim takes is not added.
  timeMs += 1_500;
  await pace();
  // Nor is what was missed made up for.
  timeMs += 10_000;
  for (let i = 0; i < 2; i++) await pace();
  assertEquals(waits.map(Math.round), [550, 1_100, 150, 550]);
});

Deno.test("deliverNotifications() claims two seconds' worth at a time, if there is a limit", async () => {
  const { counts, happened } = await run({
    batches: [batch(1, 1), batch(2, 1)],
    channel: channelOf({}, 3),
  });
  assertEquals((await counts).sent, 2);
  assertEquals(
    happened.filter(([name]) => name === CLAIM[0]).map(([, body]) => body),
    Array(3).fill({ ...OUTBOX, p_limit: 6 }),
  );
});

Deno.test("deliverNotifications() sends nothing of a batch after 429, and ends", async () => {
  const { counts, happened, lines } = await run({
    batches: [batch(1, 3), batch(4, 1)],
    channel: channelOf({
      id_2: { result: "limited", error: "slower", retryAfterSeconds: 7 },
    }, 100),
    sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
  });
  assertEquals(await counts, {
    ...NOTHING,
    claimed: 3,
    sent: 1,
    limited: 1,
    unsent: 1,
  });
  assertEquals(happened, [
    ["billing_claim_notifications", { ...OUTBOX, p_limit: 200 }],
    ["send", "id_1"],
    ["send", "id_2"],
    ["billing_settle_notifications", {
      ...OUTBOX,
      results: [
        settled(1, "sent"),
        settled(2, "limited", "slower", 7),
        settled(3, "unsent"),
      ],
    }],
  ]);
  assertEquals(lines, [logged(2, "limited", "slower")]);
});

Deno.test("deliverNotifications() sends a batch at once, and settles after the last", async () => {
  const all = Promise.withResolvers<void>();
  let underWay = 0;
  const { counts, happened } = await run({
    batches: [batch(0)],
    channel: {
      ...channelOf({}),
      send: async () => {
        // None returns before all have begun.
        if (++underWay === 20) all.resolve();
        await all.promise;
        return { result: "sent" };
      },
    },
  });
  assertEquals((await counts).sent, 20);
  assertEquals(happened.map(([name]) => name), [
    "billing_claim_notifications",
    ...Array(20).fill("send"),
    "billing_settle_notifications",
    "billing_claim_notifications",
  ]);
});

Deno.test("deliverNotifications() settles nothing if nothing is due", async () => {
  const { counts, happened } = await run({ channel: channelOf({}) });
  assertEquals([await counts, happened], [NOTHING, [CLAIM]]);
});

Deno.test("deliverNotifications() claims nothing without a channel", async () => {
  const { counts, happened } = await run({ batches: [batch(1)] });
  assertEquals([await counts, happened], [NOTHING, []]);
});

Deno.test("deliverNotifications() fails if the batch cannot be settled", async () => {
  const { counts, happened } = await run({
    batches: [batch(1, 1)],
    channel: channelOf({}),
    settle: () =>
      Response.json({ code: "57014", message: "" }, { status: 500 }),
  });
  const error = await assertRejects(() => counts, DeliveryError);
  assertEquals([error.code, happened.length], ["database_unavailable", 3]);
});

Deno.test("deliverAlerts() claims, sends all at once and settles, once", async () => {
  const both = Promise.withResolvers<void>();
  let underWay = 0;
  const { options, happened, lines } = setUp({
    batches: [[OPENED, RESOLVED]],
    alertChannel: {
      name: "slack",
      destination: "alerts to ops.test",
      send: async ({ id }) => {
        if (++underWay === 2) both.resolve();
        await both.promise;
        return id === OPENED.id
          ? { result: "sent" }
          : { result: "failed", error: "busy" };
      },
    },
  });
  const counts = { ...NOTHING, claimed: 2, sent: 1, failed: 1 };
  assertEquals(await deliverAlerts(options), counts);
  const outbox = { ...OUTBOX, p_destination: "alerts to ops.test" };
  const told = ({ kind, alert }: Alert, result: string) => ({
    result,
    kind,
    alert,
    retry_after_seconds: null,
  });
  assertEquals<unknown>(happened, [
    ["billing_claim_alerts", outbox],
    ["billing_settle_alerts", {
      ...outbox,
      results: [told(OPENED, "sent"), told(RESOLVED, "failed")],
    }],
  ]);
  assertEquals(lines, [["warn", "notification not delivered", {
    notification_id: RESOLVED.id,
    event_id: null,
    result: "failed",
    error: "busy",
  }]]);
});
