import { assertEquals } from "@std/assert";
import { OPENED } from "../../support/alerts.ts";
import { NOT_STATED } from "../../support/payment.ts";
import type {
  Alert,
  Channel,
} from "../../../supabase/functions/billing-worker/channels/channel.ts";
import { createClient } from "../../../supabase/functions/_shared/billing/database.ts";
import { handleWake } from "../../../supabase/functions/billing-worker/handle_wake.ts";
import { invoiceEvent } from "../../../scripts/events/invoice_event.ts";

const NOTHING = {
  claimed: 0,
  sent: 0,
  failed: 0,
  dead: 0,
  undeliverable: 0,
  limited: 0,
  unsent: 0,
};
const ONE_SENT = { ...NOTHING, claimed: 1, sent: 1 };
const MARK = "TEXT-OF-THE-DATABASE";

const NOTIFICATION = {
  id: "00ea7bdb-ac40-475d-b354-f87fe5d7c4c1",
  provider: "a",
  event_id: "evt_1",
  account_id: "acc_1",
  subscription_id: "sub_1",
  invoice_id: null,
  ...NOT_STATED,
  created_at: "2026-11-21T06:24:03.113987+00:00",
};

const FAILURE = {
  provider: "a",
  event_id: "evt_2",
  body: JSON.stringify(invoiceEvent()),
  body_encoding: "text",
};

type Answers = Record<string, () => Response | Promise<Response>>;

/** Gives the rows once, and then none. */
function once(...rows: unknown[]): () => Response {
  const due = [...rows];
  return () => Response.json(due.splice(0));
}

/** One failure to retry, whose event is applied. */
function oneRetry(): Answers {
  return {
    claim_failed_events: once(FAILURE),
    apply_events: () => Response.json([{ place: 1, outcome: "applied" }]),
  };
}

/** One run against a database that has nothing due unless told. */
async function wake(
  { method = "POST", answers = {}, alertChannel, clock = Date.now }: {
    method?: string;
    answers?: Answers;
    alertChannel?: Channel<Alert>;
    clock?: () => number;
  } = {},
) {
  const calls: string[] = [];
  const leases = new Set<string>();
  const lines: unknown[][] = [];
  const response = await handleWake(
    new Request("http://worker.test/billing-worker", { method }),
    {
      database: createClient({
        supabaseUrl: "http://database.test",
        secretKey: "sb_secret_unit",
      }, {
        fetch: async (input, init) => {
          const { p_lease_id, p_queue, events } = JSON.parse(
            String(init?.body),
          );
          leases.add(p_lease_id ?? events[0].retry.lease_id);
          const rpc = String(input).split("/billing_").pop() ?? "";
          const name = p_queue ? `release ${p_queue}` : rpc;
          calls.push(name);
          return await answers[name]?.() ?? Response.json([]);
        },
      }),
      channel: {
        name: "webhook",
        destination: "hooks.test",
        send: () => Promise.resolve({ result: "sent" }),
      },
      alertChannel,
      unmappedSubscriptions: "fail",
      oncePerInvoice: false,
      toleranceSeconds: 300,
      log: (...line) => lines.push(line),
      clock,
      pace: () => Promise.resolve(),
    },
  );
  return { response, calls, leases, lines };
}

function refusal(code: string): () => Response {
  return () => Response.json({ code, message: MARK }, { status: 500 });
}

/** The calls of one part, in order. */
function callsOf(calls: readonly string[], part: RegExp): string[] {
  return calls.filter((name) => part.test(name));
}

Deno.test("handleWake() answers with counts, and releases what it held", async () => {
  const { response, calls, leases, lines } = await wake({
    answers: { claim_notifications: once(NOTIFICATION) },
  });
  assertEquals(response.status, 200);
  const { retries, alerts, notifications } = await response.json();
  assertEquals([retries.claimed, alerts, notifications], [
    0,
    NOTHING,
    ONE_SENT,
  ]);
  assertEquals(callsOf(calls, /notifications/), [
    "claim_notifications",
    "settle_notifications",
    "claim_notifications",
    "release notifications",
  ]);
  assertEquals(callsOf(calls, /failed|retries/), [
    "claim_failed_events",
    "release retries",
  ]);
  assertEquals(leases.size, 1);
  assertEquals(lines, [[
    "info",
    "notifications delivered",
    { counts: ONE_SENT },
  ]]);
});

Deno.test("handleWake() makes a lease of its own in each run, and logs nothing if nothing is due", async () => {
  const [one, other] = await Promise.all([wake(), wake()]);
  assertEquals(one.leases.union(other.leases).size, 2);
  assertEquals([one.lines, other.lines], [[], []]);
});

for (const method of ["GET", "PUT", "PATCH", "DELETE"]) {
  Deno.test(`handleWake() refuses ${method}`, async () => {
    const { response, calls } = await wake({ method });
    assertEquals(response.status, 405);
    assertEquals(response.headers.get("allow"), "POST");
    assertEquals(await response.text(), "");
    assertEquals(calls, []);
  });
}

for (
  const [failing, code, status] of [
    ["claim_notifications", "57014", 503],
    ["claim_notifications", "PGRST001", 503],
    ["claim_notifications", "PGRST202", 500],
    ["settle_notifications", "08006", 503],
    ["claim_failed_events", "PGRST202", 500],
    ["apply_events", "42501", 500],
    ["claim_alerts", "PGRST202", 500],
  ] as const
) {
  Deno.test(`handleWake() answers ${status} and does its other parts if ${failing} says ${code}`, async () => {
    const { response, calls, lines } = await wake({
      answers: {
        ...oneRetry(),
        claim_notifications: once(NOTIFICATION),
        claim_alerts: once(OPENED),
        [failing]: refusal(code),
      },
      alertChannel: alertChannelThat(() => Promise.resolve({ result: "sent" })),
    });
    assertEquals(response.status, status);
    assertEquals((await response.text()).includes(MARK), false);
    const messages = lines.map(([level, message]) => `${level} ${message}`);
    assertEquals(messages.filter((line) => /^error/.test(line)), [
      "error run failed",
    ]);
    assertEquals(messages.filter((line) => /^info/.test(line)).length, 2);
    for (const queue of ["retries", "notifications"]) {
      assertEquals(calls.includes(`release ${queue}`), true, queue);
    }
  });
}

Deno.test("handleWake() has done its work although a lease cannot be released", async () => {
  const { response, lines } = await wake({
    answers: {
      claim_notifications: once(NOTIFICATION),
      "release notifications": refusal("57014"),
    },
  });
  assertEquals((await response.json()).notifications, ONE_SENT);
  assertEquals(lines.map(([level, message]) => [level, message]), [
    ["info", "notifications delivered"],
    ["warn", "lease not released: it ends by itself within a minute"],
  ]);
});

Deno.test("handleWake() delivers once more what a retry has caused", async () => {
  const claims = [[NOTIFICATION], [], [{ ...NOTIFICATION, id: "id_2" }], []];
  const { response, calls, leases } = await wake({
    answers: {
      ...oneRetry(),
      claim_notifications: () => Response.json(claims.shift()),
    },
  });
  const { retries, notifications } = await response.json();
  assertEquals([retries.applied, notifications.sent], [1, 2]);
  assertEquals(callsOf(calls, /release notifications/).length, 1);
  assertEquals([claims, leases.size], [[], 1]);
});

Deno.test("handleWake() delivers nothing more when its time is over", async () => {
  let timeMs = Date.now();
  const { calls } = await wake({
    answers: {
      ...oneRetry(),
      settle_failed_events: () => {
        timeMs += 61_000;
        return Response.json(1);
      },
    },
    clock: () => timeMs,
  });
  assertEquals(callsOf(calls, /claim_notifications/).length, 1);
});

Deno.test("handleWake() delivers while its retries are held up, and claims alerts after them", async () => {
  const settled = Promise.withResolvers<void>();
  const { response, calls } = await wake({
    answers: {
      ...oneRetry(),
      settle_failed_events: async () => {
        await settled.promise;
        return Response.json(1);
      },
      claim_notifications: once(NOTIFICATION),
      settle_notifications: () => {
        settled.resolve();
        return Response.json(1);
      },
    },
    alertChannel: alertChannelThat(() => Promise.resolve({ result: "sent" })),
  });
  assertEquals((await response.json()).notifications, ONE_SENT);
  assertEquals(callsOf(calls, /settle_failed|retries|alert/), [
    "settle_failed_events",
    "release retries",
    "claim_alerts",
  ]);
});

function alertChannelThat(send: Channel<Alert>["send"]): Channel<Alert> {
  return { name: "webhook", destination: "alerts to ops.test", send };
}

Deno.test("handleWake() claims no alerts if nobody is to get them", async () => {
  const { response, calls } = await wake();
  assertEquals((await response.json()).alerts, NOTHING);
  assertEquals(callsOf(calls, /alert/), []);
});

Deno.test("handleWake() sends alerts and notifications at the same time", async () => {
  const settled = Promise.withResolvers<void>();
  const { response, lines } = await wake({
    answers: {
      claim_alerts: once(OPENED),
      claim_notifications: once(NOTIFICATION),
      settle_notifications: () => {
        settled.resolve();
        return Response.json(1);
      },
    },
    // Ends only after the notification was sent.
    alertChannel: alertChannelThat(async ({ alert }) => {
      assertEquals(alert, OPENED.alert);
      await settled.promise;
      return { result: "sent" };
    }),
  });
  const { alerts, notifications } = await response.json();
  assertEquals([alerts, notifications], [ONE_SENT, ONE_SENT]);
  assertEquals(lines.map(([, message]) => message).sort(), [
    "alerts delivered",
    "notifications delivered",
  ]);
});
