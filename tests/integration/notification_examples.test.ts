/**
 * docs/notifications.md shows each notification and e-mail as it really is, and
 * docs/runbook.md each alert: signed events go through the receiver and the worker,
 * and what arrives is compared with the page. IDs, times and the signature are new
 * in each run, so they are replaced by those of the page.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { Webhook } from "standardwebhooks";
import { edited } from "../support/edited.ts";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import type { Alert } from "../../supabase/functions/billing-worker/channels/channel.ts";
import { slackChannel } from "../../supabase/functions/billing-worker/channels/slack_channel.ts";
import { checkExamples, type DocExample } from "../support/doc_examples.ts";
import { type MailRequest, startMailApi } from "../support/mail_api.ts";
import {
  alertEnvironment,
  type Arrival,
  NOTIFICATION_SECRET,
  startNotifiedEndpoint,
} from "../support/notified_endpoint.ts";
import { startOwnStack } from "../support/own_stack.ts";
import { startReceiver } from "../support/receiver.ts";
import { deliver, type ProviderName } from "../support/send.ts";
import { startSlackApi } from "../support/slack_api.ts";
import { connect } from "../support/tables.ts";
import { settleLeftovers } from "../support/triage.ts";
import { withoutAccount } from "../support/without_account.ts";
import { startWorker } from "../support/worker.ts";
import { putOffAll, settledRow } from "../support/outbox.ts";

const SENT_AT = new Date("2026-11-28T09:00:03Z");
const NEXT_ATTEMPT = Date.parse("2026-12-01T09:00:00Z") / 1000;
const OWNER = "owner@example.com";

const NEXT = { "data.object.next_payment_attempt": NEXT_ATTEMPT };
const LAST = {
  "data.object.next_payment_attempt": null,
  "data.object.attempt_count": 8,
};
const LITTLE = {
  "data.object.id": undefined,
  "data.object.hosted_invoice_url": undefined,
  "data.object.amount_due": undefined,
  "data.object.currency": undefined,
  "data.object.attempt_count": undefined,
  "data.object.next_payment_attempt": undefined,
};

/** An event that was sent, and the IDs that the page has instead of its own. */
interface Failure {
  readonly event: { readonly id: string };
  readonly pageIds: readonly (readonly [string, string])[];
}

/** Creates a subscription and fails the payment of an invoice of it. */
async function failPayment(
  url: string,
  { changes, account, provider = "a" }: {
    changes: Readonly<Record<string, unknown>>;
    account: string;
    provider?: ProviderName;
  },
): Promise<Failure> {
  const ids = {
    subscription: uniqueId("sub"),
    invoice: uniqueId("in"),
    id: uniqueId("evt"),
  };
  const creation = subscriptionEvent("customer.subscription.created", {
    subscription: ids.subscription,
    account,
  });
  const event = edited(invoiceEvent(ids), changes);
  for (const sent of [creation, event]) {
    assertEquals((await deliver(url, sent, { provider })).status, 200);
  }
  return {
    event,
    pageIds: [
      [ids.subscription, "sub_1"],
      [ids.invoice, "in_1"],
      [ids.id, "evt_1"],
    ],
  };
}

function withPageIds(text: string, { pageIds }: Failure): string {
  return pageIds.reduce(
    (replaced, [from, to]) => replaced.replaceAll(from, to),
    text,
  );
}

function webhookExample(
  arrival: Arrival,
  failure: Failure,
  path = "/billing-notifications",
): DocExample {
  const message = { ...arrival.message, timestamp: "2026-11-28T09:00:02.113Z" };
  const body = withPageIds(JSON.stringify(message), failure);
  const headers = new Headers({
    ...Object.fromEntries(
      ["content-type", "webhook-id", "webhook-timestamp", "webhook-signature"]
        .map((name) => [name, arrival.headers.get(name) ?? ""]),
    ),
    "webhook-id": "00ea7bdb-ac40-475d-b354-f87fe5d7c4c1",
    "webhook-timestamp": String(SENT_AT.getTime() / 1000),
  });
  const id = headers.get("webhook-id") ?? "";
  const signature = new Webhook(NOTIFICATION_SECRET).sign(id, SENT_AT, body);
  assertEquals(
    arrival.headers.get("webhook-signature")?.length,
    signature.length,
  );
  headers.set("webhook-signature", signature);
  return {
    language: "http",
    text: [
      `POST ${path} HTTP/1.1`,
      ...Array.from(headers, ([name, value]) => `${name}: ${value}`),
      "",
      JSON.stringify(JSON.parse(body), null, 2),
    ].join("\n"),
  };
}

function mailExample({ fields }: MailRequest, failure: Failure): DocExample {
  const { from, to, subject, text } = fields;
  return {
    language: "text",
    text: withPageIds(
      `From: ${from}\nTo: ${to}\nSubject: ${subject}\n\n${text}`,
      failure,
    ),
  };
}

function htmlExample({ fields }: MailRequest, failure: Failure): DocExample {
  return { language: "html", text: withPageIds(fields.html ?? "", failure) };
}

async function webhookExamples(): Promise<DocExample[]> {
  await using endpoint = startNotifiedEndpoint();
  await using receiver = await startReceiver();
  await using worker = await startWorker(endpoint.env);
  const sql = connect();
  try {
    await putOffAll(sql);
    const examples: DocExample[] = [];
    for (
      const [changes, provider] of [
        [NEXT, "a"],
        [LAST, "a"],
        [LITTLE, "b"],
      ] as const
    ) {
      const sent = { changes, account: "acc_1", provider };
      const failure = await failPayment(receiver.url, sent);
      await worker.wake();
      const [arrival] = endpoint.about(failure.event.id);
      assert(arrival !== undefined);
      examples.push(webhookExample(arrival, failure));
    }
    return examples;
  } finally {
    await sql.end();
  }
}

async function mailExamples(): Promise<DocExample[]> {
  await using api = startMailApi();
  await using own = await startOwnStack({ env: api.env });
  const { stack, sql } = own;
  const account = crypto.randomUUID();
  await sql`create table auth.users (id uuid primary key, email text)`;
  await sql`insert into auth.users values (${account}, ${OWNER})`;
  const texts: DocExample[] = [];
  const htmls: DocExample[] = [];
  for (const changes of [NEXT, LAST, LITTLE]) {
    const failure = await failPayment(stack.urls.webhook, { changes, account });
    const { id } = await settledRow(sql, failure.event.id);
    const mail = api.requests.find(({ key }) => key === id);
    assert(mail !== undefined && mail.status === 200);
    texts.push(mailExample(mail, failure));
    htmls.push(htmlExample(mail, failure));
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
const PAGE_TIMES = {
  first_failed_at: "2026-11-28T09:00:01.500Z",
  last_failed_at: "2026-11-28T09:00:01.500Z",
  opened_at: "2026-11-28T08:20:02.250Z",
};

/** An alert with the times of the page. */
function withPageTimes(arrival: Arrival): Arrival {
  const { message } = arrival;
  const data = Object.entries(message.data).map(([name, value]) => [
    name,
    PAGE_TIMES[name as keyof typeof PAGE_TIMES] ?? value,
  ]);
  return {
    ...arrival,
    message: { ...message, data: Object.fromEntries(data) },
  };
}

/** The message of Slack's channel for the alert of an arrival. */
async function slackExample(
  { message: { type, timestamp, data } }: Arrival,
  failure: Failure,
): Promise<DocExample> {
  await using slack = startSlackApi();
  const channel = slackChannel(slack.url, {
    projectUrl: "https://abcdefghijklmnopqrst.supabase.co",
    fetch: slack.fetch,
    clock: Date.now,
  });
  const { result } = await channel.send({
    id: "",
    created_at: timestamp,
    kind: type.replace("billing.", ""),
    alert: data as unknown as Alert["alert"],
  });
  assertEquals(result, "sent");
  return {
    language: "text",
    text: withPageIds(slack.messages.join(), failure),
  };
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
      subscription: uniqueId("sub"),
    });
    const failure = { event, pageIds: [[event.id, "evt_1"]] as const };
    const refused = await deliver(
      receiver.url,
      edited(withoutAccount(event), {
        "data.object.customer": uniqueId("cus"),
      }),
    );
    assertEquals(refused.status, 422);
    await worker.wake();
    assertEquals((await deliver(receiver.url, event)).status, 200);
    await worker.wake();

    const alerts = endpoint.arrivals.map(withPageTimes);
    assertEquals(alerts.map(({ message }) => message.type), [
      "billing.failure_opened",
      "billing.failures_resolved",
    ]);
    await checkExamples("runbook.md", [
      ...alerts.map((alert) => webhookExample(alert, failure, "/alerts")),
      ...await Promise.all(alerts.map((alert) => slackExample(alert, failure))),
    ]);
  } finally {
    await sql.end();
  }
});
