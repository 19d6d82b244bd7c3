import { assertEquals } from "@std/assert";
import { FAILED, OPENED, refusal } from "./fixtures.ts";
import { countsOf, notifications, RETRIED, wake } from "./worker_run.ts";

const FAULT = "error: run failed";
const FAILURES_RETRIED = "info: failures retried";
const NOTIFIED = "info: notifications delivered";
const ALERTED = "info: alerts delivered";
const FAILING: [call: string, code: string, status: number, ...string[]][] = [
  ["claim_notifications", "57014", 503, FAULT, ALERTED, FAILURES_RETRIED],
  ["settle_notifications", "PGRST202", 500, FAULT, ALERTED, FAILURES_RETRIED],
  ["claim_failed_events", "PGRST202", 500, FAULT, ALERTED, NOTIFIED],
  ["apply_events", "57014", 503, FAULT, ALERTED, NOTIFIED],
  ["settle_failed_events", "57014", 503, FAULT, ALERTED, NOTIFIED],
  ["claim_alerts", "42501", 500, FAULT, FAILURES_RETRIED, NOTIFIED],
  ["settle_alerts", "08006", 503, FAULT, FAILURES_RETRIED, NOTIFIED],
  [
    "release_lease retries",
    "57014",
    200,
    ALERTED,
    FAILURES_RETRIED,
    NOTIFIED,
    "warn: lease not released: it ends by itself within a minute",
  ],
];
Deno.test("handleWake() does its other parts if one fails", async () => {
  for (const [failing, code, status, ...logged] of FAILING) {
    const run = await wake({
      due: {
        claim_alerts: [[OPENED]],
        claim_notifications: [notifications("sent")],
      },
      answers: { [failing]: () => refusal(code, "LEAKED") },
      ...RETRIED,
    });

    assertEquals(run.response.status, status, failing);
    assertEquals(run.text.includes("LEAKED"), false, run.text);
    if (status === 200) assertEquals(run.counts.alerts, countsOf("sent"));
    const lines = run.lines.map(([level, message]) => `${level}: ${message}`);
    assertEquals(lines.sort(), logged.sort(), failing);

    const released = run.named(/release/).map(([, lease]) => lease);
    assertEquals(new Set(released.map(({ queue }) => queue)).size, 2);
    // The schedule leaves a trace of what it has done without a fault.
    const isTraced = released.every(({ is_scheduled }) => is_scheduled);
    assertEquals(isTraced, status === 200, failing);
  }

  const idle = await wake({ worker: { alertChannel: undefined } });
  assertEquals([idle.lines, idle.named(/alert/)], [[], []]);
  const { response, calls } = await wake({}, "PUT");
  const allow = response.headers.get("allow");
  assertEquals([response.status, allow, calls], [405, "POST", []]);
});

Deno.test("handleWake() runs both queues at once, and alerts after the retries", async () => {
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

  const [first, second, ...then] = named(/claim_alerts|release/)
    .map(([name, { queue }]) => queue ?? name);
  assertEquals([first, second].sort(), ["notifications", "retries"]);
  assertEquals(then, ["claim_alerts", "notifications"]);
});

function wakeFor(queue: string | undefined, wanted: boolean[]) {
  const release = () => Response.json(wanted.shift() ?? false);
  return wake({ queue, answers: { [`release_lease ${queue}`]: release } });
}

Deno.test("handleWake() works on its queue, again if another run has asked", async () => {
  for (const queue of ["retries", "notifications", undefined]) {
    const { named } = await wakeFor(queue, [true, false]);

    const claims = [/claim_failed/, /claim_notif/, /claim_alerts/, /release/]
      .map((name) => named(name).length);
    const rounds = (name: string) => queue === name ? 2 : queue ? 0 : 1;
    const [retries, deliveries] = [rounds("retries"), rounds("notifications")];
    const alerts = Math.min(deliveries, 1);
    const releases = retries + deliveries + alerts;
    assertEquals(claims, [retries, deliveries, alerts, releases]);
    for (const [, { is_last, is_scheduled }] of named(/release/)) {
      assertEquals([is_last, is_scheduled], [false, queue === undefined]);
    }
  }

  // While alerts are sent.
  const { named } = await wakeFor("notifications", [false, true]);
  assertEquals(named(/claim_notif/).length, 2);
});

Deno.test("handleWake() has handlers compared by the schedule's runs alone", async () => {
  const types = new Set(["charge.refunded", FAILED]);
  const names = ["on_charge_refunded", "on_invoice_payment_failed"];
  for (
    const [queue, fault, expected] of [
      [undefined, undefined, names],
      ["notifications", undefined, undefined],
      [undefined, "is malformed", undefined],
    ] as const
  ) {
    const { named } = await wake({
      queue,
      worker: { handlerTypes: { types, ...(fault && { fault }) } },
    });
    const [claim] = named(/claim_alerts/);
    assertEquals(claim?.[1]["handlers"], expected);
  }
});
