/**
 * docs/notifications.md shows each notification and e-mail as it really is: signed
 * events go through the receiver and the worker, and what arrives is compared with
 * the page. IDs, times and the signature are new in each run, so they are replaced
 * by those of the page.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { Webhook } from "standardwebhooks";
import { edited } from "../../scripts/events/edited.ts";
import {
  invoiceEvent,
  type InvoiceEventOptions,
  subscriptionEvent,
} from "../../scripts/events/event.ts";
import { API_VERSIONS } from "../../scripts/events/templates.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { checkExamples, type DocExample } from "../support/doc_examples.ts";
import { type MailRequest, startMailApi } from "../support/mail_api.ts";
import {
  type Arrival,
  NOTIFICATION_SECRET,
  startNotifiedEndpoint,
} from "../support/notified_endpoint.ts";
import { startOwnStack } from "../support/own_stack.ts";
import { startReceiver } from "../support/receiver.ts";
import { deliver, type ProviderName } from "../support/send.ts";
import { connect } from "../support/tables.ts";
import { putOffAll, settledRow, startWorker } from "../support/worker.ts";

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
  readonly event: ReturnType<typeof invoiceEvent>;
  readonly pageIds: readonly (readonly [string, string])[];
}

/** Creates a subscription and fails the payment of an invoice of it. */
async function failPayment(
  url: string,
  { changes, account, provider = "a", apiVersion }: {
    changes: Readonly<Record<string, unknown>>;
    account: string;
    provider?: ProviderName;
    apiVersion: NonNullable<InvoiceEventOptions["apiVersion"]>;
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
    apiVersion,
  });
  const event = edited(invoiceEvent({ ...ids, apiVersion }), changes);
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

function webhookExample(arrival: Arrival, failure: Failure): DocExample {
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
      "POST /billing-notifications HTTP/1.1",
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
    for (const apiVersion of API_VERSIONS) {
      const ofVersion: DocExample[] = [];
      for (
        const [changes, provider] of [[NEXT, "a"], [LAST, "a"], [
          LITTLE,
          "b",
        ]] as const
      ) {
        const account = "acc_1";
        const failure = await failPayment(receiver.url, {
          changes,
          account,
          provider,
          apiVersion,
        });
        await worker.wake();
        const [arrival] = endpoint.about(failure.event.id);
        assert(arrival !== undefined);
        ofVersion.push(webhookExample(arrival, failure));
      }
      // Both versions give the same.
      if (examples.length > 0) assertEquals(ofVersion, examples);
      else examples.push(...ofVersion);
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
  const examples: DocExample[] = [];
  for (const apiVersion of API_VERSIONS) {
    const texts: DocExample[] = [];
    const htmls: DocExample[] = [];
    for (const changes of [NEXT, LAST, LITTLE]) {
      const failure = await failPayment(stack.urls.webhook, {
        changes,
        account,
        apiVersion,
      });
      const { id } = await settledRow(sql, failure.event.id);
      const mail = api.requests.find(({ key }) => key === id);
      assert(mail !== undefined && mail.status === 200);
      texts.push(mailExample(mail, failure));
      htmls.push(htmlExample(mail, failure));
    }
    const ofVersion = [...texts, ...htmls.slice(0, 1)];
    if (examples.length > 0) assertEquals(ofVersion, examples);
    else examples.push(...ofVersion);
  }
  return examples;
}

Deno.test("docs/notifications.md shows what accounts are sent", async () => {
  await checkExamples("notifications.md", [
    ...await webhookExamples(),
    ...await mailExamples(),
  ]);
});
