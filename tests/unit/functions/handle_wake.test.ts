import { assertEquals } from "@std/assert";
import { OPENED } from "../../support/alerts.ts";
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
const MARK = "TEXT-OF-THE-DATABASE";

const NOTIFICATION = {
  id: "00ea7bdb-ac40-475d-b354-f87fe5d7c4c1",
  lease_id: "11ea7bdb-ac40-475d-b354-f87fe5d7c4c1",
  provider: "a",
  event_id: "evt_1",
  account_id: "acc_1",
  subscription_id: "sub_1",
  invoice_id: null,
  created_at: "2026-11-21T06:24:03.113987+00:00",
  wait_ms: 0,
};

/** The columns of both kinds of message, as the database returns them. */
const ALERT = { ...NOTIFICATION, ...OPENED };

type Answers = Record<string, () => Response>;

/** One run against a database that has nothing due unless told. */
async function wake(
  { method = "POST", answers = {}, alertChannel }: {
    method?: string;
    answers?: Answers;
    alertChannel?: Channel<Alert>;
  } = {},
) {
  const calls: string[] = [];
  const lines: unknown[][] = [];
  const response = await handleWake(
    new Request("http://worker.test/billing-worker", { method }),
    {
      database: createClient({
        supabaseUrl: "http://database.test",
        secretKey: "sb_secret_unit",
      }, {
        fetch: (input, init) => {
          const { p_alerts } = JSON.parse(String(init?.body));
          const rpc = String(input).split("/").pop() ?? "";
          const name = p_alerts ? `${rpc} of alerts` : rpc;
          calls.push(name);
          return Promise.resolve(answers[name]?.() ?? Response.json([]));
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
      clock: Date.now,
      sleep: () => Promise.resolve(),
    },
  );
  return { response, calls, lines };
}

/** One notification is due, and none after it. */
function oneDue(): () => Response {
  const due = [NOTIFICATION];
  return () => Response.json(due.splice(0));
}

function refusal(code: string): () => Response {
  return () => Response.json({ code, message: MARK }, { status: 500 });
}

Deno.test("handleWake() answers with counts", async () => {
  const { response, calls, lines } = await wake({
    answers: {
      claim_notifications: oneDue(),
      settle_notifications: () => Response.json(1),
    },
  });
  const notifications = { ...NOTHING, claimed: 1, sent: 1 };
  assertEquals(response.status, 200);
  assertEquals((await response.json()).notifications, notifications);
  assertEquals(calls.slice(-3), [
    "claim_notifications",
    "settle_notifications",
    "claim_notifications",
  ]);
  assertEquals(lines, [[
    "info",
    "notifications delivered",
    { counts: notifications },
  ]]);
});

Deno.test("handleWake() logs nothing if nothing is due", async () => {
  const { response, lines } = await wake();
  assertEquals(response.status, 200);
  assertEquals((await response.json()).notifications, NOTHING);
  assertEquals(lines, []);
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
  const [code, status] of [
    ["57014", 503],
    ["PGRST001", 503],
    ["PGRST202", 500],
    ["42501", 500],
  ] as const
) {
  Deno.test(`handleWake() answers ${status} if the database says ${code}`, async () => {
    const { response, lines } = await wake({
      answers: { claim_notifications: refusal(code) },
    });
    assertEquals(response.status, status);
    assertEquals((await response.text()).includes(MARK), false);
    assertEquals(lines.map(([level, message]) => [level, message]), [
      ["error", "run failed"],
    ]);
  });
}

Deno.test("handleWake() answers 503 if the batch cannot be settled", async () => {
  const { response, lines } = await wake({
    answers: {
      claim_notifications: oneDue(),
      settle_notifications: refusal("08006"),
    },
  });
  assertEquals(response.status, 503);
  assertEquals(lines.length, 1);
});

for (const failing of ["claim_failed_events", "apply_billing_events"]) {
  Deno.test(`handleWake() delivers notifications although ${failing} fails`, async () => {
    const { response, calls, lines } = await wake({
      answers: {
        claim_failed_events: () =>
          Response.json([{
            provider: "a",
            event_id: "evt_2",
            lease_id: NOTIFICATION.lease_id,
            body: JSON.stringify(invoiceEvent()),
            body_encoding: "text",
          }]),
        claim_notifications: oneDue(),
        settle_notifications: () => Response.json(1),
        [failing]: refusal("PGRST202"),
      },
    });
    assertEquals(response.status, 500);
    assertEquals(calls.slice(-4), [
      failing,
      "claim_notifications",
      "settle_notifications",
      "claim_notifications",
    ]);
    assertEquals(lines.map(([level, message]) => [level, message]), [
      ["error", "run failed"],
      ["info", "notifications delivered"],
    ]);
  });
}

function alertChannelThat(send: Channel<Alert>["send"]): Channel<Alert> {
  return {
    name: "webhook",
    alerts: true,
    destination: "alerts to ops.test",
    send,
  };
}

/** One alert is due, and none after it. */
function oneAlertDue(): Answers {
  const due = [ALERT];
  return {
    open_alerts: () => Response.json(1),
    "claim_notifications of alerts": () => Response.json(due.splice(0)),
    settle_notifications: () => Response.json(1),
  };
}

Deno.test("handleWake() writes no alerts if nobody is to get them", async () => {
  const { response, calls } = await wake();
  assertEquals((await response.json()).alerts, NOTHING);
  assertEquals(calls.filter((name) => /alert/.test(name)), []);
});

Deno.test("handleWake() writes the alerts that are due, and sends them", async () => {
  const sent: Alert[] = [];
  const { response, calls, lines } = await wake({
    answers: oneAlertDue(),
    alertChannel: alertChannelThat((alert) => {
      sent.push(alert);
      return Promise.resolve({ result: "sent" });
    }),
  });
  const alerts = { ...NOTHING, claimed: 1, sent: 1 };
  assertEquals(await response.json().then((counts) => counts.alerts), alerts);
  assertEquals(sent.map(({ alert }) => alert), [OPENED.alert]);
  const alerting = calls.filter((name) => /alert/.test(name));
  assertEquals(alerting.slice(0, 2), [
    "open_alerts",
    "claim_notifications of alerts",
  ]);
  assertEquals(lines, [["info", "alerts delivered", { counts: alerts }]]);
});

Deno.test("handleWake() sends alerts and notifications at the same time", async () => {
  const settled = Promise.withResolvers<void>();
  let settles = 0;
  const { response } = await wake({
    answers: {
      ...oneAlertDue(),
      claim_notifications: oneDue(),
      settle_notifications: () => {
        if (++settles === 1) settled.resolve();
        return Response.json(1);
      },
    },
    // Ends only after the notification was sent.
    alertChannel: alertChannelThat(async () => {
      await settled.promise;
      return { result: "sent" };
    }),
  });
  const { alerts, notifications } = await response.json();
  assertEquals([alerts.sent, notifications.sent], [1, 1]);
});

Deno.test("handleWake() delivers notifications although alerts fail", async () => {
  const { response, calls, lines } = await wake({
    answers: {
      open_alerts: refusal("PGRST202"),
      claim_notifications: oneDue(),
      settle_notifications: () => Response.json(1),
    },
    alertChannel: alertChannelThat(() => Promise.resolve({ result: "sent" })),
  });
  assertEquals(response.status, 500);
  assertEquals(
    calls.filter((name) => name === "settle_notifications").length,
    1,
  );
  assertEquals(lines.map(([, message]) => message).sort(), [
    "notifications delivered",
    "run failed",
  ]);
});
