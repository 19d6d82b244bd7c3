/**
 * docs/notifications.md shows each notification and e-mail as it really is, and
 * docs/runbook.md each alert: signed events go through the receiver and the worker,
 * and what arrives is compared with the page. IDs, times and the signature are new
 * in each run, so they are replaced by those of the page. With UPDATE_EXAMPLES=1 in
 * the environment, what arrived is written into the page.
 */
import { assert, assertEquals } from "@std/assert";
import { Webhook } from "standardwebhooks";
import { edited, withoutAccount } from "../support/edited.ts";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import type { Alert } from "../../supabase/functions/billing-worker/channels/channel.ts";
import { slackChannel } from "../../supabase/functions/billing-worker/channels/slack_channel.ts";
import {
  alertEnvironment,
  type Arrival,
  MAIL_API_KEY,
  NOTIFICATION_SECRET,
  startMailApi,
  startNotifiedEndpoint,
} from "../support/notified.ts";
import {
  putOffAll,
  repair,
  requestRetry,
  settledRow,
  settleLeftovers,
} from "../support/queues.ts";
import { startOwnStack } from "../support/stacks.ts";
import { startReceiver, startWorker } from "../support/functions.ts";
import { deliver, type ProviderName } from "../support/send.ts";
import { connect } from "../support/tables.ts";

const DOCS = new URL("../../docs/", import.meta.url);
const SENT_AT = new Date("2026-11-28T09:00:03Z");
const OWNER = "owner@example.com";
const SLACK = "https://hooks.slack.com/services/T00000000/B00000000/SECRET";

/** What the events of a failed payment state. */
const NEXT = {
  "data.object.next_payment_attempt": Date.parse("2026-12-01T09:00:00Z") / 1000,
};
const LAST = {
  "data.object.next_payment_attempt": null,
  "data.object.attempt_count": 8,
};
const LITTLE = {
  created: undefined,
  "data.object.id": undefined,
  "data.object.hosted_invoice_url": undefined,
  "data.object.amount_due": undefined,
  "data.object.currency": undefined,
  "data.object.attempt_count": undefined,
  "data.object.next_payment_attempt": undefined,
};

/** What arrived, as a page of `docs` is to show it. */
interface Example {
  readonly language: "http" | "text" | "html";
  readonly text: string;
}

/** Compares the blocks of a page with what arrived, in the order of the page. */
async function checkExamples(page: string, examples: Example[]): Promise<void> {
  const file = new URL(page, DOCS);
  const found = await Deno.readTextFile(file);
  const left = examples.values();
  const expected = found.replaceAll(
    /^```(http|text|html)\n[^]*?^```$/gm,
    (_, language: string) => {
      const { value } = left.next();
      assertEquals(language, value?.language);
      return `\`\`\`${language}\n${value?.text.trimEnd()}\n\`\`\``;
    },
  );
  assertEquals([...left], []);
  if (Deno.env.get("UPDATE_EXAMPLES") === "1") {
    await Deno.writeTextFile(file, expected);
  } else {
    assertEquals(found.split("\n"), expected.split("\n"), `docs/${page}`);
  }
}

/** The IDs of what was sent, and those of the page. */
type PageIds = readonly (readonly [sent: string, ofPage: string])[];

function withPageIds(text: string, pageIds: PageIds): string {
  return pageIds.reduce(
    (replaced, [from, to]) => replaced.replaceAll(from, to),
    text,
  );
}

/** Every kind of notification, and how its event is told from the usual one. */
const KINDS = [
  ["payment_failed", NEXT],
  ["payment_failed", LAST],
  ["payment_failed", LITTLE],
  ["trial_ending", {}],
  ["action_required", NEXT],
  ["recovered", {}],
  ["ended", {}],
] as const;
const NOTIFY = KINDS.map(([kind]) => kind).join(",");

/** Creates a subscription, and causes a notification about it. */
async function causeNotification(
  url: string,
  { kind, changes, account, provider = "a" }: {
    kind: typeof KINDS[number][0];
    changes: Readonly<Record<string, unknown>>;
    account: string;
    provider?: ProviderName;
  },
) {
  const ids = {
    subscription: uniqueId("sub"),
    invoice: uniqueId("in"),
    id: uniqueId("evt"),
  };
  const { subscription } = ids;
  // It must not be over; the page has another year.
  const trial = { trialEnd: Date.parse("2099-12-01T09:00:00Z") / 1000 };
  const ofTrial = kind === "trial_ending" && { ...trial, status: "trialing" };
  const about = { id: ids.id, subscription, ...ofTrial };
  const type = "customer.subscription";
  const told = {
    payment_failed: () => invoiceEvent(ids),
    action_required: () => invoiceEvent(ids, "invoice.payment_action_required"),
    trial_ending: () => subscriptionEvent(`${type}.trial_will_end`, about),
    recovered: () =>
      subscriptionEvent(`${type}.updated`, {
        ...{ ...about, status: "active", previous: { status: "past_due" } },
      }),
    ended: () => subscriptionEvent(`${type}.deleted`, about),
  }[kind]();
  const creation = subscriptionEvent(`${type}.created`, {
    ...{ subscription, account, ...ofTrial },
  });
  for (const sent of [creation, edited<object>(told, changes)]) {
    assertEquals((await deliver(url, sent, { provider })).status, 200);
  }
  const pageIds: PageIds = [
    [subscription, "sub_1"],
    [ids.invoice, "in_1"],
    [ids.id, "evt_1"],
    [isoOf(told.created ?? 0), "2026-11-28T09:00:00.000Z"],
    ["2099", "2026"],
  ];
  return { id: ids.id, pageIds };
}

function isoOf(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}

function webhookExample(
  { headers: arrived, message }: Arrival,
  pageIds: PageIds,
  path = "/billing-notifications",
): Example {
  const body = withPageIds(JSON.stringify(message), [
    ...pageIds,
    [message.timestamp, "2026-11-28T09:00:02.113Z"],
  ]);
  const id = "00ea7bdb-ac40-475d-b354-f87fe5d7c4c1";
  const signature = new Webhook(NOTIFICATION_SECRET).sign(id, SENT_AT, body);
  assertEquals(arrived.get("webhook-signature")?.length, signature.length);
  return {
    language: "http",
    text: [
      `POST ${path} HTTP/1.1`,
      `content-type: ${arrived.get("content-type")}`,
      `webhook-id: ${id}`,
      `webhook-signature: ${signature}`,
      `webhook-timestamp: ${SENT_AT.getTime() / 1000}`,
      "",
      JSON.stringify(JSON.parse(body), null, 2),
    ].join("\n"),
  };
}

async function webhookExamples(): Promise<Example[]> {
  await using endpoint = startNotifiedEndpoint();
  await using receiver = await startReceiver({ env: { NOTIFY } });
  await using worker = await startWorker(endpoint.env);
  const sql = connect();
  await putOffAll(sql).finally(() => sql.end());
  const examples: Example[] = [];
  // The last two have no more than the least.
  for (const [kind, changes] of KINDS.slice(0, -2)) {
    const provider = changes === LITTLE ? "b" : "a";
    const sent = { kind, changes, account: "acc_1", provider } as const;
    const { id, pageIds } = await causeNotification(receiver.url, sent);
    await worker.wake();
    const [arrival] = endpoint.about(id);
    assert(arrival !== undefined);
    examples.push(webhookExample(arrival, pageIds));
  }
  return examples;
}

/** The webhook alone wakes the worker here, on a stack with users of its own. */
async function mailExamples(): Promise<Example[]> {
  await using api = startMailApi();
  await using own = await startOwnStack({ env: { ...api.env, NOTIFY } });
  const { stack, sql, log } = own;
  const account = crypto.randomUUID();
  await sql`create table auth.users (id uuid primary key, email text)`;
  await sql`insert into auth.users values (${account}, ${OWNER})`;
  const texts: Example[] = [];
  const htmls: Example[] = [];
  for (const [kind, changes] of KINDS) {
    const sent = { kind, changes, account };
    const { id, pageIds } = await causeNotification(stack.urls.webhook, sent);
    const row = await settledRow(sql, id);
    assertEquals([row.status, row.attempts], ["sent", 1]);
    const mail = api.requests.find(({ key }) => key === row.id);
    assert(mail !== undefined && mail.status === 200);
    const { from, to, subject, text, html = "" } = mail.fields;
    const plain = `From: ${from}\nTo: ${to}\nSubject: ${subject}\n\n${text}`;
    texts.push({ language: "text", text: withPageIds(plain, pageIds) });
    htmls.push({ language: "html", text: withPageIds(html, pageIds) });
  }

  const nobody = await causeNotification(stack.urls.webhook, {
    ...{ kind: "ended", changes: {} },
    account: crypto.randomUUID(),
  });
  const { status } = await settledRow(sql, nobody.id);
  assertEquals([status, api.requests.length], ["undeliverable", KINDS.length]);
  const output = log.join("\n");
  assert(output.includes("notifications delivered"), output);
  for (const hidden of [MAIL_API_KEY, OWNER, stack.keys.secret]) {
    assert(!output.includes(hidden), `${hidden} is in the log`);
  }
  return [...texts, ...htmls.slice(0, 1)];
}

Deno.test("docs/notifications.md shows what accounts are sent", async () => {
  await checkExamples("notifications.md", [
    ...await webhookExamples(),
    ...await mailExamples(),
  ]);
});

/** When the failure happened and was reported, as the page has it. */
const PAGE_TIMES: Record<string, string> = {
  first_failed_at: "2026-11-28T09:00:01.500Z",
  last_failed_at: "2026-11-28T09:00:01.500Z",
  opened_at: "2026-11-28T08:20:02.250Z",
};

/** An alert with the times of the page. */
function withPageTimes(arrival: Arrival): Arrival {
  const { message } = arrival;
  const data = Object.entries(message.data)
    .map(([name, value]) => [name, PAGE_TIMES[name] ?? value]);
  return {
    ...arrival,
    message: { ...message, data: Object.fromEntries(data) },
  };
}

/** The message that Slack shows for an alert. */
async function slackExample(
  { message: { type, timestamp, data } }: Arrival,
  pageIds: PageIds,
): Promise<Example> {
  let shown = "";
  const channel = slackChannel(SLACK, {
    projectUrl: "https://abcdefghijklmnopqrst.supabase.co",
    fetch: (_, init) => {
      shown = JSON.parse(`${init?.body}`).text.replaceAll("&gt;", ">")
        .replaceAll("&lt;", "<").replaceAll("&amp;", "&");
      return Promise.resolve(new Response("ok"));
    },
    clock: Date.now,
  });
  await channel.send({
    id: "",
    created_at: timestamp,
    kind: type.replace("billing.", ""),
    alert: data as unknown as Alert["alert"],
  });
  return { language: "text", text: withPageIds(shown, pageIds) };
}

Deno.test("docs/runbook.md shows the alerts that operators are sent", async () => {
  await using endpoint = startNotifiedEndpoint();
  await using receiver = await startReceiver();
  await using worker = await startWorker(alertEnvironment(endpoint));
  const sql = connect();
  try {
    await settleLeftovers(sql);
    await sql`truncate billing.alerts`;
    const event = subscriptionEvent("customer.subscription.created", {
      customer: uniqueId("cus"),
    });
    const refused = await deliver(receiver.url, withoutAccount(event));
    assertEquals(refused.status, 422);
    await worker.wake();
    // The run that retries it says so already.
    await repair(sql, event.id, event);
    await requestRetry(sql, event.id);
    await worker.wake();

    const alerts = endpoint.arrivals.map(withPageTimes);
    const ids: PageIds = [[event.id, "evt_1"]];
    await checkExamples("runbook.md", [
      ...alerts.map((alert) => webhookExample(alert, ids, "/alerts")),
      ...await Promise.all(alerts.map((alert) => slackExample(alert, ids))),
    ]);
  } finally {
    await sql.end();
  }
});
