import { assertEquals, assertRejects } from "@std/assert";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import type { Log } from "../../../supabase/functions/_shared/billing/log.ts";
import type {
  Alert,
  Attempt,
  Notification,
} from "../../../supabase/functions/billing-worker/channels/channel.ts";
import { pacer } from "../../../supabase/functions/billing-worker/deliver_notifications.ts";
import {
  handleWake,
  type Worker,
} from "../../../supabase/functions/billing-worker/handle_wake.ts";
import { accountEmail } from "../../../supabase/functions/billing-worker/outbox.ts";
import { invoiceEvent } from "../../../scripts/events/invoice_event.ts";
import {
  type Answer,
  fakeDatabase,
  NOTIFICATION,
  OPENED,
  refusal,
  RESOLVED,
} from "./fixtures.ts";

interface Setting {
  /** What the calls return, by name and in order; then nothing. */
  readonly due?: Record<string, unknown[][]>;
  readonly answers?: Record<string, Answer>;
  /** What becomes of a message, by its id; it is sent by default. */
  readonly attempt?: (id: string) => Attempt | undefined;
  readonly perSecond?: number;
  readonly worker?: Partial<Worker>;
}

/** One run: reply, calls, log lines, and which messages were sent. */
async function wake(
  { due = {}, answers = {}, attempt, perSecond, worker }: Setting = {},
  method = "POST",
) {
  const sent: string[] = [];
  const lines: Parameters<Log>[] = [];
  const leases = new Set<unknown>();
  const { database, calls } = fakeDatabase((name, body) => {
    const [event] = (body.events ?? []) as { retry: { lease_id: string } }[];
    leases.add(body.p_lease_id ?? event?.retry.lease_id);
    const queue = body.p_queue ? `${name} ${body.p_queue}` : name;
    const rows = () => Response.json(due[name]?.shift() ?? []);
    return (answers[queue] ?? rows)(name, body);
  });
  const channel = {
    name: "webhook",
    destination: "hooks.test",
    ...(perSecond !== undefined && { perSecond }),
    send: ({ id }: Notification | Alert) => {
      sent.push(id);
      return Promise.resolve(attempt?.(id) ?? { result: "sent" } as const);
    },
  } as const;
  const sleep = (ms: number) =>
    new Promise<void>((resolve) => setTimeout(resolve, ms));
  const request = new Request("http://worker.test/", { method });
  const response = await handleWake(request, {
    database,
    channel,
    alertChannel: { ...channel, destination: "alerts to ops.test" },
    unmappedSubscriptions: "fail",
    oncePerInvoice: false,
    toleranceSeconds: 300,
    log: (...line) => lines.push(line),
    clock: Date.now,
    pace: pacer(channel, { clock: Date.now, sleep }),
    ...worker,
  });
  const text = await response.text();
  const counts = response.status === 200 ? JSON.parse(text) : {};
  const named = (part: RegExp) => calls.filter(([name]) => part.test(name));
  return { counts, response, text, calls, named, sent, lines, leases };
}

const RESULTS: Record<string, string> = {
  ...{ s: "sent", f: "failed", d: "dead", u: "undeliverable" },
  ...{ l: "limited", n: "unsent" },
};

/** Notifications, one per letter, which is the result of the attempt. */
function batch(letters: string): Notification[] {
  const ids = [...letters].map((letter, i) => `id_${i}${letter}`);
  return ids.map((id) => ({ ...NOTIFICATION, id }));
}

function attempt(id: string): Attempt | undefined {
  const result = RESULTS[id.slice(-1)] as "failed";
  return id.endsWith("s") ? undefined : { result, error: "no" };
}

/** What is counted for results by their letters. */
function countsOf(letters: string) {
  const counts = Object.entries(RESULTS)
    .map(([letter, result]) => [result, letters.split(letter).length - 1]);
  return { claimed: letters.length, ...Object.fromEntries(counts) };
}

function oneRetry(outcome = "applied") {
  const body = JSON.stringify(invoiceEvent());
  const failure = { provider: "a", event_id: "evt_2", body };
  return {
    claim_failed_events: [[{ ...failure, body_encoding: "text" }]],
    apply_events: [[{ place: 1, outcome }]],
  };
}
const full = (letter: string) => letter.repeat(20);
const many = Array<string>(60).fill(full("s"));

let timeMs = 0;
const ticking = () => timeMs += 10_000;

/** Batches that are due, and the results after how many claims. */
const RUNS: [batches: string[], results: string, claims: number, Setting?][] = [
  [[], "", 1],
  [["s"], "", 0, { worker: { channel: undefined } }],
  [["sfdu"], "sfdu", 2],
  // It goes on while some succeed, or have no address.
  [[`${full("f")}s`, "u", "s", "", "s"], `${full("f")}sus`, 4],
  [[full("f"), "s"], full("f"), 1],
  [[full("d"), "s"], full("d"), 1],
  [["sl", "s"], "sl", 1],
  // With a rate limit, nothing more is sent after a 429.
  [["sls", "s"], "sln", 1, { perSecond: 100 }],
  [many, "s".repeat(1_000), 50],
  // Once more what a retry has caused, up to the limit.
  [["s", "", "ss"], "sss", 4, { due: oneRetry() }],
  [[full("s"), "", ...many], "s".repeat(1_000), 51, { due: oneRetry() }],
  // Its time is over: a minute, of which each look at the clock takes 10 s.
  [["s", "s", "s", "s", "s"], "ssss", 4, { worker: { clock: ticking } }],
  // Nothing, if the retry is a duplicate.
  [["s", "", "ss"], "s", 2, { due: oneRetry("stale") }],
];
Deno.test("handleWake() delivers notifications while it is worth it", async () => {
  for (const [batches, results, claims, { due, ...setting } = {}] of RUNS) {
    const name = `${batches}`.slice(0, 80);
    const claim_notifications = batches.map(batch);
    const all = { ...due, claim_notifications };
    const run = await wake({ due: all, attempt, ...setting });
    assertEquals(run.counts.notifications, countsOf(results), name);
    assertEquals(run.named(/claim_notifications/).length, claims, name);
    const tried = results.replaceAll("n", "").length;
    assertEquals([run.sent.length, run.leases.size], [tried, 1], name);
    // Nothing is settled of a batch that is empty.
    const settled = batches.slice(0, claims).filter((one) => one !== "");
    assertEquals(run.named(/settle_notif/).length, settled.length, name);
    assertEquals(run.named(/settle_alerts/), [], name);
  }
});

Deno.test("handleWake() claims and settles what was told to whom, as it can be stored", async () => {
  const errors: [error: string, stored: string, after?: number][] = [
    ["no", "no", 0],
    ["a\0b", "ab", 7],
    ["a\ud83db", "a\ufffdb"],
    // The limit divides a pair.
    [`${"x".repeat(999)}😀`, `${"x".repeat(999)}\ufffd`],
    ["x".repeat(100_000), "x".repeat(1_000)],
  ];
  const { leases, ...run } = await wake({
    due: {
      claim_notifications: [batch("fffff")],
      claim_alerts: [[OPENED, RESOLVED]],
    },
    attempt: (id) => {
      const [error = "", , retryAfterSeconds] = errors[Number(id[3])] ?? [];
      if (id === OPENED.id) return undefined;
      return id === RESOLVED.id
        ? { result: "dead", error: "gone" }
        : { result: "failed", error, retryAfterSeconds };
    },
    perSecond: 50,
  });
  const [p_lease_id] = leases;
  const outbox = { p_lease_id, p_destination: "hooks.test" };
  const alerts = { p_lease_id, p_destination: "alerts to ops.test" };
  const told = (result: string, { kind, alert }: Alert) => {
    return { result, kind, alert, retry_after_seconds: null };
  };
  const both = [told("sent", OPENED), told("failed", RESOLVED)];
  const results = errors.map(([, error, after = null], i) => {
    const of = { id: `id_${i}f`, result: "failed" };
    return { ...of, error, retry_after_seconds: after };
  });
  assertEquals(run.named(/notifications$|alerts$/).sort(), [
    ["claim_alerts", alerts],
    ["claim_notifications", { ...outbox, p_limit: 100 }],
    ["settle_alerts", { ...alerts, results: both }],
    ["settle_notifications", { ...outbox, results }],
  ]);
  const message = "notification not delivered";
  const gone = { event_id: null, result: "dead", error: "gone" };
  const no = { event_id: "evt_1", result: "failed", error: "no" };
  const [first] = run.lines;
  assertEquals<unknown>(first, [
    "warn",
    message,
    { notification_id: "id_0f", ...no },
  ]);
  const ofAlert = run.lines.find(([, , fields]) =>
    fields?.["event_id"] === null
  );
  assertEquals<unknown>(ofAlert, [
    "warn",
    message,
    { notification_id: RESOLVED.id, ...gone },
  ]);
});

Deno.test("handleWake() replies with counts, and logs the parts that had something to do", async () => {
  const idle = await wake({ worker: { alertChannel: undefined } });
  assertEquals([idle.lines, idle.named(/alert/)], [[], []]);
  const run = await wake({
    due: { claim_notifications: [batch("s")], claim_alerts: [[OPENED]] },
    answers: { "release_lease retries": () => refusal("57014") },
  });
  const { alerts, notifications } = run.counts;
  assertEquals([alerts, notifications], [countsOf("s"), countsOf("s")]);
  assertEquals(run.lines.map((line) => line.slice(0, 2)).sort(), [
    ["info", "alerts delivered"],
    ["info", "notifications delivered"],
    ["warn", "lease not released: it ends by itself within a minute"],
  ]);
  const { response, text, calls } = await wake({}, "PUT");
  const allow = response.headers.get("allow");
  assertEquals([response.status, allow, text, calls], [405, "POST", "", []]);
});

Deno.test("handleWake() does its other parts if one fails, and releases both leases", async () => {
  const cases: [failing: string, code: string, status: number][] = [
    ["claim_notifications", "57014", 503],
    ["settle_notifications", "PGRST202", 500],
    ["claim_failed_events", "PGRST202", 500],
    ["claim_alerts", "42501", 500],
    ["settle_alerts", "08006", 503],
  ];
  for (const [failing, code, status] of cases) {
    const alerts = { claim_alerts: [[OPENED]] };
    const due = { ...alerts, claim_notifications: [batch("s")], ...oneRetry() };
    const answers = { [failing]: () => refusal(code, "LEAKED") };
    const { response, text, lines, named } = await wake({ due, answers });
    assertEquals([response.status, text.includes("LEAKED")], [status, false]);
    const levels = lines.map(([level]) => level).sort();
    assertEquals(levels, ["error", "info", "info"], failing);
    const queues = new Set(named(/release/).map(([, { p_queue }]) => p_queue));
    assertEquals(queues, new Set(["notifications", "retries"]));
  }
});

Deno.test("handleWake() has retries and notifications wait for none of each other, and alerts for retries", async () => {
  const all = Promise.withResolvers<void>();
  let waiting = 2;
  // Each claim answers only after both are made.
  const claim = async () => {
    if (--waiting === 0) all.resolve();
    await all.promise;
    return Response.json([]);
  };
  const { named } = await wake({
    answers: {
      claim_failed_events: claim,
      claim_notifications: claim,
      claim_alerts: () => {
        assertEquals(waiting, 0);
        return Response.json([]);
      },
    },
  });
  const order = named(/claim_alerts|release/).map(([name, { p_queue }]) =>
    `${name} ${p_queue ?? ""}`.replace("billing_", "").trim()
  );
  assertEquals(order, [
    "release_lease retries",
    "claim_alerts",
    "release_lease notifications",
  ]);
});

Deno.test("pacer() gives out times on one schedule, and none in the past", async () => {
  let timeMs = 1_000;
  const waits: number[] = [];
  const sleep = (ms: number) => Promise.resolve(void waits.push(ms));
  const pace = pacer({ perSecond: 2 }, { clock: () => timeMs, sleep });
  // What a claim takes is not added, and what was missed is not made up for.
  for (const pauseMs of [0, 0, 0, 1_500, 10_000, 0]) {
    timeMs += pauseMs;
    await pace();
  }
  await pacer(undefined, { clock: () => timeMs, sleep })();
  assertEquals(waits.map(Math.round), [550, 1_100, 150, 550]);
});

Deno.test("accountEmail() returns the address or null, or fails with the database", async () => {
  for (const address of ["owner@example.com", null]) {
    const { database, calls } = fakeDatabase(() => Response.json(address));
    assertEquals(await accountEmail(database, "acc_1"), address);
    assertEquals(calls, [["account_email", { account_id: "acc_1" }]]);
  }
  const { database } = fakeDatabase(() => refusal("57014"));
  const work = () => accountEmail(database, "x");
  await assertRejects(work, DeliveryError, "account_email failed: says");
});
