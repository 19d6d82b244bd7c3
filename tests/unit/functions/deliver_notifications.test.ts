import { assert, assertEquals } from "@std/assert";
import type { Alert } from "../../../supabase/functions/billing-worker/channels/channel.ts";
import { pacer } from "../../../supabase/functions/billing-worker/deliver_notifications.ts";
import { MISSED, NOTIFICATION, RESOLVED } from "./fixtures.ts";
import {
  countsOf,
  INVOICE,
  notifications,
  RETRIED,
  type Setting,
  wake,
} from "./worker_run.ts";

const times = (count: number, result: string) =>
  Array(count).fill(result).join(" ");
const TWENTY = times(20, "sent");
const MANY = Array<string>(60).fill(TWENTY);

let timeMs = 0;
const ticking = () => timeMs += 10_000;

interface Run extends Setting {
  /** What the attempts of each batch would lead to. */
  batches: string[];
  claims: number;
  /** Of the batches that are claimed, if not as above. */
  results?: string;
}

const RUNS: Run[] = [
  { batches: [], claims: 1 },
  { batches: ["sent"], claims: 0, worker: { channel: undefined } },
  { batches: ["sent failed dead undeliverable"], claims: 2 },
  // It goes on while some succeed, or have no address.
  {
    batches: [
      `${times(20, "failed")} sent`,
      "undeliverable",
      "sent",
      "",
      "sent",
    ],
    claims: 4,
  },
  { batches: [times(20, "failed"), "sent"], claims: 1 },
  { batches: [times(20, "dead"), "sent"], claims: 1 },
  { batches: ["sent limited", "sent"], claims: 1 },
  // With a rate limit, nothing more is sent after a 429.
  {
    batches: ["sent limited sent", "sent"],
    claims: 1,
    results: "sent limited unsent",
    perSecond: 100,
  },
  { batches: MANY, claims: 50 },
  // Once more what a retry has caused, up to the limit.
  { batches: ["sent", "", "sent sent"], claims: 4, ...RETRIED },
  { batches: [TWENTY, "", ...MANY], claims: 51, ...RETRIED },
  // Also if it was woken for retries alone.
  { batches: ["sent sent"], claims: 2, ...RETRIED, queue: "retries" },
  // Its time is over: a minute, of which each look at the clock takes 10 s.
  { batches: Array(5).fill("sent"), claims: 3, worker: { clock: ticking } },
  // Nothing, if the retry had no effect.
  {
    batches: ["sent", "", "sent sent"],
    claims: 2,
    failures: [["", INVOICE, "stale"]],
  },
];
Deno.test("a run delivers notifications while it is worth it", async () => {
  for (const { batches, claims, results, ...setting } of RUNS) {
    const name = `${batches}`.slice(0, 80);
    const due = { claim_notifications: batches.map(notifications) };
    const run = await wake({ ...setting, due });

    const claimed = batches.slice(0, claims).filter(Boolean);
    const counts = countsOf(results ?? claimed.join(" "));
    assertEquals(run.counts.notifications, counts, name);
    assertEquals(run.sent.length, counts.claimed - counts.unsent, name);
    assertEquals(run.leases.size, 1, name);
    assertEquals(run.named(/claim_notifications/).length, claims, name);
    // Nothing is settled of a batch that is empty.
    assertEquals(run.named(/settle_notif/).length, claimed.length, name);
    assertEquals(run.named(/settle_alerts/), [], name);
  }
});

const ERRORS: [error: string, stored: string, after: number | null][] = [
  ["no", "no", 0],
  ["a\0b", "ab", 7],
  // The limit divides a pair.
  [`${"x".repeat(999)}😀`, `${"x".repeat(999)}\ufffd`, null],
];
Deno.test("a run settles what it has told, as it can be stored", async () => {
  const { leases: [lease_id], ...run } = await wake({
    due: {
      claim_notifications: [notifications("failed failed failed")],
      claim_alerts: [[MISSED, RESOLVED]],
    },
    attempt: (id) => {
      if (id === MISSED.id) return { result: "sent" };
      if (id === RESOLVED.id) return { result: "dead", error: "gone" };
      const [error, , after] = ERRORS[Number(id[0])]!;
      return { result: "failed", error, retryAfterSeconds: after ?? undefined };
    },
    perSecond: 50,
  });

  const outbox = { lease_id, destination: "hooks.test" };
  const alerts = { lease_id, destination: "alerts to ops.test" };
  const settled = (result: string, error: string | null, one: Alert) => {
    return { ...one, result, error, retry_after_seconds: null };
  };
  const both = [
    settled("sent", null, MISSED),
    settled("dead", "gone", RESOLVED),
  ];
  const results = ERRORS.map(([, error, retry_after_seconds], i) => ({
    id: `${i} failed`,
    kind: NOTIFICATION.kind,
    created_at: NOTIFICATION.created_at,
    result: "failed",
    error,
    retry_after_seconds,
  }));
  assertEquals(run.named(/notifications$|alerts$/).sort(), [
    ["claim_alerts", { ...alerts, handlers: [] }],
    ["claim_notifications", { ...outbox, batch_size: 100 }],
    ["settle_alerts", { ...alerts, results: both }],
    ["settle_notifications", { ...outbox, results }],
  ]);

  const logged = run.lines.map(([level, , fields]) => {
    return `${level}: ${fields?.notification_id} of ${fields?.event_id}`;
  });
  assertEquals(logged[0], "warn: 0 failed of evt_1");
  assert(logged.includes(`warn: ${RESOLVED.id} of null`), logged.join());
});

Deno.test("pacer() gives out times on one schedule", async () => {
  let timeMs = 1_000;
  const waits: number[] = [];
  const sleep = (ms: number) => Promise.resolve(void waits.push(ms));
  const pace = pacer(2, { clock: () => timeMs, sleep });

  // What a claim takes is not added, and what was missed is not made up for.
  for (const pauseMs of [0, 0, 0, 1_500, 10_000, 0]) {
    timeMs += pauseMs;
    await pace();
  }
  assertEquals(waits.map(Math.round), [550, 1_100, 150, 550]);
});
