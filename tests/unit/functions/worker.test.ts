/** One run of the worker: retries, notifications and alerts. */
import { assert, assertEquals } from "@std/assert";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import type { Log } from "../../../supabase/functions/_shared/billing/log.ts";
import { FORMATS } from "../../../supabase/functions/_shared/billing/events/formats.ts";
import { stripe } from "../../../supabase/functions/_shared/billing/events/stripe.ts";
import { describeText } from "../../../supabase/functions/_shared/billing/database/record_failure.ts";
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
import type { Reading } from "../../../supabase/functions/billing-worker/retry_failures.ts";
import { settle, useFakeTimers } from "../../support/fake_timers.ts";
import {
  type Call,
  CREATED,
  DELETED,
  FAILED,
  fakeDatabase,
  hanging,
  NO_FURTHER,
  NOTIFICATION,
  NOW,
  OPENED,
  refusal,
  RESOLVED,
  stripeEvent,
  UPDATED,
} from "./fixtures.ts";

type Row = [settled: string, body: Body, outcomeOrCode?: string];
type Body = string | Uint8Array;

type Answer = (signal: AbortSignal) => Response | Promise<Response>;

interface Setting {
  /** What the calls return, by name and in order; then nothing. */
  readonly due?: Record<string, unknown[][]>;
  /** The first batch of failures that are due: evt_0 and so on. */
  readonly failures?: readonly Row[];
  readonly answers?: Record<string, Answer>;
  /** What it is woken for; by default everything, as by the schedule. */
  readonly queue?: string;
  readonly attempt?: (id: string) => Attempt;
  readonly perSecond?: number;
  readonly worker?: Partial<Worker>;
}

interface Applied {
  readonly provider: string;
  readonly retry: { readonly event_id: string; readonly lease_id: string };
}

const textOf = (body: Body) =>
  typeof body === "string" ? body : new TextDecoder().decode(body);

function claimed([, body]: Row, index: number) {
  const row = { provider: "b", event_id: `evt_${index}`, type: "x" };
  return typeof body === "string"
    ? { ...row, body, body_encoding: "json" }
    : { ...row, body: body.toBase64(), body_encoding: "base64" };
}

/** What the database answers of the events of failures; its order is another. */
function outcomesOf(events: readonly Applied[], failures: readonly Row[]) {
  return events.map(({ retry: { event_id } }, i) => {
    const said = failures[Number(event_id.slice(4))]?.[2] ?? "applied";
    return /\d/.test(said)
      ? { place: i + 1, outcome: "failed", error_code: said, error: "says" }
      : { place: i + 1, outcome: said };
  }).reverse();
}

async function wake(
  { due = {}, failures = [], answers = {}, attempt = attemptOf, ...setting }:
    Setting = {},
  method = "POST",
) {
  const { perSecond } = setting;
  const sent: string[] = [];
  const lines: Parameters<Log>[] = [];
  const leases = new Set<unknown>();
  const claim_failed_events = [failures.map(claimed)];
  const queued: typeof due = { claim_failed_events, ...due };
  const { database, calls } = fakeDatabase((name, body, { signal }) => {
    const events =
      (body.events ?? (body.event ? [body.event] : [])) as Applied[];
    for (const { retry } of events) leases.add(retry.lease_id);
    if (events.length === 0) leases.add(body.lease_id);
    const queue = body.queue ? `${name} ${body.queue}` : name;
    const rows = () =>
      Response.json(
        /^apply_/.test(name)
          ? outcomesOf(events, failures)
          : queued[name]?.shift() ?? [],
      );
    return (answers[queue] ?? rows)(signal);
  });
  const channel = {
    destination: "hooks.test",
    ...(perSecond !== undefined && { perSecond }),
    send: ({ id }: Notification | Alert) => {
      sent.push(id);
      return Promise.resolve(attempt(id));
    },
  } as const;
  const worker = { channel, ...setting.worker };
  // With a rate limit one after the other, whatever the clock does.
  let turn = Promise.resolve();
  const pace = () => perSecond ? turn = turn.then(settle) : turn;
  const search = setting.queue ? `?queue=${setting.queue}` : "";
  const request = new Request(`http://worker.test/${search}`, { method });
  const response = await handleWake(request, {
    ...{ database, toleranceSeconds: 300, clock: Date.now, ...NO_FURTHER },
    ...{ unmappedSubscriptions: "fail", oncePerInvoice: false },
    readingOf: () => ({ format: stripe, mode: "any", connect: true }),
    alertChannel: { ...channel, destination: "alerts to ops.test" },
    log: (...line) => lines.push(line),
    ...{ pace, ...worker },
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

/** What the last letter of an id means; an alert is sent. */
function attemptOf(id: string): Attempt {
  const result = RESULTS[id.slice(-1)] as "failed" | undefined;
  return id.endsWith("s") || !result
    ? { result: "sent" }
    : { result, error: "no" };
}

function countsOf(letters: string) {
  const counts = Object.entries(RESULTS)
    .map(([letter, result]) => [result, letters.split(letter).length - 1]);
  return { claimed: letters.length, ...Object.fromEntries(counts) };
}

const eventOf = (type: string, changes: Record<string, unknown> = {}) =>
  JSON.stringify(stripeEvent(type, changes));
const invoice = eventOf(FAILED);
const retried: Setting = { failures: [["", invoice]] };
const stale: Setting = { failures: [["", invoice, "stale"]] };
const full = (letter: string) => letter.repeat(20);
const many = Array<string>(60).fill(full("s"));

let timeMs = 0;
const ticking = () => timeMs += 10_000;

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
  [["s", "", "ss"], "sss", 4, retried],
  [[full("s"), "", ...many], "s".repeat(1_000), 51, retried],
  // Also if it was woken for retries alone.
  [["ss"], "ss", 2, { ...retried, queue: "retries" }],
  // Its time is over: a minute, of which each look at the clock takes 10 s.
  [["s", "s", "s", "s", "s"], "sss", 3, { worker: { clock: ticking } }],
  // Nothing, if the retry had no effect.
  [["s", "", "ss"], "s", 2, stale],
];
Deno.test("handleWake() delivers notifications while it is worth it", async () => {
  for (const [batches, results, claims, setting] of RUNS) {
    const name = `${batches}`.slice(0, 80);
    const due = { claim_notifications: batches.map(batch) };
    const run = await wake({ ...setting, due });
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

const ERRORS: [error: string, stored: string, after: number | null][] = [
  ["no", "no", 0],
  ["a\0b", "ab", 7],
  // The limit divides a pair.
  [`${"x".repeat(999)}😀`, `${"x".repeat(999)}\ufffd`, null],
];
Deno.test("handleWake() claims and settles what was told to whom, as it can be stored", async () => {
  const { leases: [lease_id], ...run } = await wake({
    due: {
      claim_notifications: [batch("fff")],
      claim_alerts: [[OPENED, RESOLVED]],
    },
    attempt: (id) => {
      if (id === OPENED.id) return { result: "sent" };
      if (id === RESOLVED.id) return { result: "dead", error: "gone" };
      const [error, , after] = ERRORS[Number(id[3])]!;
      return { result: "failed", error, retryAfterSeconds: after ?? undefined };
    },
    perSecond: 50,
  });
  const outbox = { lease_id, destination: "hooks.test" };
  const alerts = { lease_id, destination: "alerts to ops.test" };
  const settled = (result: string, error: string | null, one: Alert) => {
    const { id, kind, alert } = one;
    return { id, kind, alert, result, error, retry_after_seconds: null };
  };
  const both = [
    settled("sent", null, OPENED),
    settled("dead", "gone", RESOLVED),
  ];
  const results = ERRORS.map(([, error, retry_after_seconds], i) => {
    const { kind } = NOTIFICATION;
    return {
      ...{ id: `id_${i}f`, kind, result: "failed", error },
      retry_after_seconds,
    };
  });
  assertEquals(run.named(/notifications$|alerts$/).sort(), [
    ["claim_alerts", { ...alerts, handlers: [] }],
    ["claim_notifications", { ...outbox, batch_size: 100 }],
    ["settle_alerts", { ...alerts, results: both }],
    ["settle_notifications", { ...outbox, results }],
  ]);
  const told = run.lines.map(([level, , fields]) => {
    return `${level}: ${fields?.notification_id} of ${fields?.event_id}`;
  });
  assertEquals(told[0], "warn: id_0f of evt_1");
  assert(told.includes(`warn: ${RESOLVED.id} of null`), told.join());
});

const FAULT = "error: run failed";
const RETRIED = "info: failures retried";
const NOTIFIED = "info: notifications delivered";
const ALERTED = "info: alerts delivered";
const HELD = "warn: lease not released: it ends by itself within a minute";
const FAILING: [call: string, code: string, status: number, ...string[]][] = [
  ["claim_notifications", "57014", 503, FAULT, ALERTED, RETRIED],
  ["settle_notifications", "PGRST202", 500, FAULT, ALERTED, RETRIED],
  ["claim_failed_events", "PGRST202", 500, FAULT, ALERTED, NOTIFIED],
  ["apply_events", "57014", 503, FAULT, ALERTED, NOTIFIED],
  ["settle_failed_events", "57014", 503, FAULT, ALERTED, NOTIFIED],
  ["claim_alerts", "42501", 500, FAULT, RETRIED, NOTIFIED],
  ["settle_alerts", "08006", 503, FAULT, RETRIED, NOTIFIED],
  ["release_lease retries", "57014", 200, ALERTED, RETRIED, NOTIFIED, HELD],
];
Deno.test("handleWake() does its other parts if one fails, releases both leases, and logs what there was to do", async () => {
  for (const [failing, code, status, ...logged] of FAILING) {
    const run = await wake({
      due: { claim_alerts: [[OPENED]], claim_notifications: [batch("s")] },
      answers: { [failing]: () => refusal(code, "LEAKED") },
      ...retried,
    });
    assertEquals(run.response.status, status, failing);
    assertEquals(run.text.includes("LEAKED"), false, run.text);
    if (status === 200) assertEquals(run.counts.alerts, countsOf("s"));
    const lines = run.lines.map(([level, message]) => `${level}: ${message}`);
    assertEquals(lines.sort(), logged.sort(), failing);
    const released = run.named(/release/).map(([, { queue }]) => queue);
    assertEquals(new Set(released).size, 2);
    // The schedule leaves a trace of what it has done without a fault.
    const traces = run.named(/release/).map(([, one]) => one.is_scheduled);
    assertEquals(traces.every(Boolean), status === 200, failing);
  }
  const idle = await wake({ worker: { alertChannel: undefined } });
  assertEquals([idle.lines, idle.named(/alert/)], [[], []]);
  const { response, calls } = await wake({}, "PUT");
  const allow = response.headers.get("allow");
  assertEquals([response.status, allow, calls], [405, "POST", []]);
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
    answers: { claim_failed_events: claim, claim_notifications: claim },
  });
  const order = named(/claim_alerts|release/)
    .map(([name, { queue }]) => queue ?? name);
  const [first, second, ...then] = order;
  assertEquals([first, second].sort(), ["notifications", "retries"]);
  assertEquals(then, ["claim_alerts", "notifications"]);
});

Deno.test("handleWake() works on the queue that it is woken for, and goes on while another run has asked for it", async () => {
  for (const queue of ["retries", "notifications", undefined]) {
    const wanted = [true, false];
    const { named } = await wake({
      ...(queue && { queue }),
      answers: {
        [`release_lease ${queue}`]: () =>
          Response.json(wanted.shift() ?? false),
      },
    });
    const rounds = (name: string) => queue === name ? 2 : queue ? 0 : 1;
    const claims = [
      ...[/claim_failed/, /claim_notif/, /claim_alerts/, /release/],
    ].map((name) => named(name).length);
    const [retries, told] = [rounds("retries"), rounds("notifications")];
    const alerts = Math.min(told, 1);
    assertEquals(claims, [retries, told, alerts, retries + told + alerts]);
    for (const [, { is_last, is_scheduled }] of named(/release/)) {
      assertEquals([is_last, is_scheduled], [false, queue === undefined]);
    }
  }
  // While alerts are sent.
  const wanted = [false, true];
  const { named } = await wake({
    queue: "notifications",
    answers: {
      ["release_lease notifications"]: () =>
        Response.json(wanted.shift() ?? false),
    },
  });
  assertEquals(named(/claim_notif/).length, 2);
});

const WHOLE: [Answer, events: number, status: number, settled?: string][] = [
  [() => refusal("57014"), 1, 503],
  [() => refusal("PGRST301"), 1, 500],
  [hanging, 2, 503],
  [hanging, 1, 200, "database_unavailable"],
  [() => refusal("PGRST001"), 2, 503],
  [() => refusal("PGRST001"), 1, 200, "database_unavailable"],
  [() => refusal("PGRST202"), 2, 200, "deployment_fault"],
];
Deno.test("handleWake() leaves events to the next run if the fault of a call says nothing of them", async () => {
  for (const [fails, count, status, expected] of WHOLE) {
    using timers = useFakeTimers();
    const failures = Array<Row>(count).fill(["", invoice]);
    const called = Promise.withResolvers<void>();
    const apply_events: Answer = (signal) => {
      called.resolve();
      return fails(signal);
    };
    const running = wake({ failures, answers: { apply_events } });
    await called.promise;
    if (fails === hanging) await timers.pass(3_000);
    const { named, response } = await running;
    const [settle] = named(/settle_failed/);
    const results = (settle?.[1]["results"] ?? []) as { error_code: string }[];
    const codes = expected ? Array(count).fill(expected) : [];
    assertEquals(results.map(({ error_code }) => error_code), codes);
    assertEquals(response.status, status);
  }
});

Deno.test("pacer() gives out times on one schedule, and none in the past", async () => {
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

const ahead = eventOf(FAILED, { created: NOW + 301 });
const NOBODYS = { "data.object.id": "sub_3", "data.object.metadata": {} };
const orphan = eventOf(CREATED, NOBODYS);
const bytesOf = (text: string) => new TextEncoder().encode(text);
const updateOf = (id: string) => eventOf(UPDATED, { "data.object.id": id });

const ROWS: [worker: Partial<Worker>, ...rows: Row[]][] = [
  [
    {},
    ["body_not_json", "{"],
    ["duplicate", invoice, "duplicate"],
    ["no_longer_handled", '{"type":"payment_intent.payment_failed"}'],
    ["no_longer_handled", '{"event_type":"subscription.created"}'],
    ["subscription_unknown", invoice, "BW001"],
    ["stale", invoice, "stale"],
    ["ignored", invoice, "erased"],
    ["applied", bytesOf(eventOf(FAILED, { id: "evt_ü" }))],
    ["body_not_text", new Uint8Array([0x80, 0x80])],
    ["event_invalid", ahead],
    ["account_unknown", orphan, "BW005"],
  ],
  // Its time has come.
  [{ clock: () => (NOW + 1) * 1000 }, ["applied", ahead]],
  // What waits for a locked creation fails as that does.
  [
    { unmappedSubscriptions: "ignore" },
    ["record_locked", updateOf("sub_1"), "55P03"],
    ["record_locked", updateOf("sub_1"), "BW001"],
    ["record_locked", updateOf("sub_1"), "BW006"],
    ["record_locked", updateOf("sub_1"), "BW005"],
    ["subscription_of_other_provider", updateOf("sub_1"), "BW002"],
    ["creation_pending", updateOf("sub_2"), "BW006"],
    // Nobody has its subscription, and nothing else is wrong.
    ["ignored", orphan, "BW005"],
    ["ignored", bytesOf(orphan), "BW005"],
    [
      "account_unknown",
      eventOf(CREATED, { "data.object.id": "sub_2" }),
      "BW005",
    ],
    ["event_invalid", eventOf(CREATED, { ...NOBODYS, created: NOW + 301 })],
    ["ignored", eventOf(UPDATED, NOBODYS), "BW001"],
    ["subscription_unknown", updateOf("sub_2"), "BW001"],
    ["creation_pending", eventOf(UPDATED, NOBODYS), "BW006"],
    ["event_invalid", eventOf(FAILED, { data: {} })],
  ],
];
const LOCKED = "another session has locked the records: they are tried again";
Deno.test("handleWake() retries each failure, and settles and describes it", async () => {
  for (const [worker, ...failures] of ROWS) {
    const clock = () => NOW * 1000;
    const run = await wake({ failures, worker: { clock, ...worker } });
    const expected = failures.map(([result, body], i) => ({
      ...{ result, provider: "b", event_id: `evt_${i}` },
      ...describeText(textOf(body), stripe),
    }));
    const [[, { results }]] = run.named(/settle_failed/) as [Call];
    const settled = (results as Record<string, string>[])
      .map(({ error, error_code, outcome, ...described }) => {
        assertEquals(outcome === "failed", error_code !== undefined);
        // The database cannot say where an account is missing.
        const names = /^data\.object\.metadata\.accountId is missing/;
        const lacks = error_code === "account_unknown";
        assertEquals(names.test(error ?? ""), lacks);
        return { ...described, result: error_code ?? outcome };
      });
    assertEquals(settled, JSON.parse(JSON.stringify(expected)));
    assertEquals(run.leases.size, 1);
    for (const [, { events }] of run.named(/apply_events/)) {
      const providers = (events as Applied[]).map(({ provider }) => provider);
      assertEquals(new Set(providers), new Set(["b"]));
    }
    const sums = { failed: 0, applied: 0, duplicate: 0, stale: 0, ignored: 0 };
    for (const [result] of failures) {
      sums[result in sums ? result as keyof typeof sums : "failed"]++;
    }
    assertEquals(run.counts.retries, { claimed: failures.length, ...sums });
    const locked = failures.filter(([one]) => one === "record_locked").length;
    const line = ["warn", LOCKED, { counts: { locked } }];
    const warnings = run.lines.filter(([level]) => level === "warn");
    assertEquals<unknown[]>(warnings, locked > 0 ? [line] : []);
  }
});

const TRIAL = "customer.subscription.trial_will_end";
const CHECKOUT = "checkout.session.completed";
const ONE_OFF = eventOf(FAILED, { "data.object": { id: "in_1" } });
const LIVE = eventOf(FAILED, { livemode: true });
const CONNECTED = eventOf(FAILED, { account: "acct_1" });
const FURTHER = "Its type is not handled: check HANDLE_EVENT_TYPES, ";
const TYPELESS = "It has no type: check PROVIDER_B_FORMAT";
const NO_LONGER: [error: string, body: string, Partial<Reading>?][] = [
  ["mode is ignored: check PROVIDER_B_MODE", LIVE, { mode: "test" }],
  ["check PROVIDER_B_CONNECT", CONNECTED, { connect: false }],
  [`${FURTHER}PROVIDER_B_FORMAT`, eventOf("charge.refunded")],
  [FURTHER, JSON.stringify({ type: "v1.x", object: "v2.core.event" })],
  // Nothing has checked it, and Postgres could not store it.
  [FURTHER, JSON.stringify({ type: "\0" })],
  ["check NOTIFY, HANDLE_EVENT_TYPES, PROVIDER_B_", eventOf(TRIAL)],
  ["check ACCOUNT_FROM_CHECKOUT, HANDLE_EVENT_", eventOf(CHECKOUT)],
  ["names no subscription: check HANDLE_EVENT_TYPES", ONE_OFF],
  // As Stripe's, if the setting is gone.
  [FURTHER, JSON.stringify({ type: "subscription.created" })],
  [TYPELESS, JSON.stringify({ event_type: "subscription.created" })],
  [TYPELESS, invoice, { format: FORMATS.paddle }],
];
Deno.test("handleWake() leaves open what is not handled any more, and names the setting", async () => {
  for (const [error, body, changed] of NO_LONGER) {
    const reading = { format: stripe, mode: "any", connect: true } as const;
    const worker = {
      unmappedSubscriptions: "ignore",
      clock: () => NOW * 1000,
      readingOf: () => ({ ...reading, ...changed }),
    } as const;
    const run = await wake({ failures: [["", body]], worker });
    const [[, { results }]] = run.named(/settle_failed/) as [Call];
    const [settled] = results as [Record<string, string>];
    const { outcome, error_code } = settled;
    assertEquals([outcome, error_code], ["failed", "no_longer_handled"]);
    assert(settled["error"]!.includes(error), settled["error"]);
    assertEquals(run.named(/apply/), []);
  }
  const message = "PROVIDER_B_MODE must be any or live or test";
  const wrong = await wake({
    failures: [["", invoice]],
    worker: {
      readingOf() {
        throw new DeliveryError("provider_misconfigured", message);
      },
    },
  });
  const [[, { results: refused }]] = wrong.named(/settle_failed/) as [Call];
  const [{ error_code, error }] = refused as [Record<string, string>];
  assertEquals([error_code, error], ["no_longer_handled", message]);
  // It never had a type.
  const row = { ...claimed(["", '{"event_type":"x"}'], 0), type: null };
  const { named } = await wake({ due: { claim_failed_events: [[row]] } });
  const [[, { results }]] = named(/settle_failed/) as [Call];
  assertEquals(
    (results as { error_code: string }[])[0]!.error_code,
    "event_invalid",
  );
});

Deno.test("handleWake() has the handlers compared by the runs of the schedule, unless the setting is malformed", async () => {
  const types = new Set(["charge.refunded", FAILED]);
  for (
    const [queue, fault, expected] of [
      [undefined, undefined, [
        "on_charge_refunded",
        "on_invoice_payment_failed",
      ]],
      ["notifications", undefined, undefined],
      [undefined, "is malformed", undefined],
    ] as const
  ) {
    const handledTypes = { types, ...(fault && { fault }) };
    const setting = { ...(queue && { queue }), worker: { handledTypes } };
    const { named } = await wake(setting);
    const [[, { handlers }]] = named(/claim_alerts/) as [Call];
    assertEquals(handlers, expected);
  }
});

Deno.test("handleWake() retries events with a handler alone and in their order, for a second per batch", async () => {
  const types = new Set([DELETED]);
  const deletion = eventOf(DELETED);
  const failures: Row[] = [
    ...[invoice, deletion, invoice, invoice, deletion, deletion, invoice],
  ].map((body) => ["", body]);
  failures[1]![2] = "BW008";
  let nowMs = NOW * 1000;
  let tried = 0;
  const handled = () => {
    nowMs += 600;
    const failed = { outcome: "failed", error_code: "BW008", error: "raised" };
    // The second one loses its connection, and so would each retry of it.
    if (++tried === 2) return refusal("PGRST001");
    const answer = tried === 1 ? failed : { outcome: "applied" };
    return Response.json([{ place: 1, ...answer }]);
  };
  const run = await wake({
    failures,
    answers: { apply_handled_event: handled },
    worker: { handledTypes: { types }, clock: () => nowMs },
  });
  assertEquals(
    run.named(/apply/).map(([name, { events, event }]) => {
      const { payload } = (event ?? {}) as { payload?: string };
      assertEquals(payload, event ? deletion : undefined);
      return [name, Array.isArray(events) ? events.length : 1];
    }),
    [
      ...[["apply_events", 1], ["apply_handled_event", 1]],
      ...[["apply_events", 2], ["apply_handled_event", 1]],
    ],
  );
  const [[, { results }]] = run.named(/settle_failed/) as [Call];
  const outcomes = (results as Record<string, string>[])
    .map(({ outcome }) => outcome).join(" ");
  assertEquals(
    outcomes,
    "applied failed applied applied failed untried untried",
  );
  const { claimed, applied, failed } = run.counts.retries;
  assertEquals([claimed, applied, failed], [5, 3, 2]);
});

Deno.test("handleWake() goes on with retries until nothing is left or the time is over", async () => {
  // Each batch looks at the clock twice: 7 s per batch.
  const slow = { clock: () => timeMs += 3_500, channel: undefined };
  for (const [worker, count, calls] of [[{}, 4, 9], [slow, 3, 6]] as const) {
    const rows = [0, 1, 2, 3].map((i) => [claimed(["", "{"], i)]);
    const due = { claim_failed_events: rows };
    const { counts, named } = await wake({ due, worker });
    assertEquals(counts.retries.claimed, count);
    const [first, ...more] = named(/failed_events/);
    assertEquals([first?.[1].batch_size, more.length], [25, calls - 1]);
  }
});
