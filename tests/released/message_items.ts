import { edited } from "../support/edited.ts";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import {
  alertEnvironment,
  type Arrival,
  startNotifiedEndpoint,
} from "../support/notified_endpoint.ts";
import { startReceiver } from "../support/receiver.ts";
import { deliver } from "../support/send.ts";
import { connect } from "../support/tables.ts";
import { requestRetry, settleLeftovers, takeTurn } from "../support/triage.ts";
import { startWorker } from "../support/worker.ts";
import { endPauses, putOffAll } from "../support/outbox.ts";

const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/;

/** Returns the fields of what accounts and the operator receive, with types. */
export async function messageItems(): Promise<Record<string, string>> {
  const messages = await receiveMessages();
  const fields = new Map<string, Set<string>>();
  for (const { headers, message } of messages) {
    const shape = [
      ...Array.from(headers.keys(), (name) => ["header", name, "text"])
        .filter(([, name]) => name?.startsWith("webhook-")),
      ...Object.entries(message).map(([name, value]) => [
        ...["field", name, typeOf(value)],
      ]),
      ...Object.entries(message.data).map(([name, value]) => [
        ...["field", `data.${name}`, typeOf(value)],
      ]),
    ];
    for (const [kind, name, type = ""] of shape) {
      const item = `notification ${message.type} ${kind} ${name}`;
      fields.set(item, (fields.get(item) ?? new Set()).add(type));
    }
  }
  return Object.fromEntries(
    Array.from(
      fields,
      ([item, types]) => [item, [...types].sort().join(" or ")],
    ),
  );
}

/** Has a payment fail, once with all details and once with none, and an event. */
async function receiveMessages(): Promise<readonly Arrival[]> {
  await using opened = new AsyncDisposableStack();
  const endpoint = opened.use(startNotifiedEndpoint());
  const receiver = opened.use(await startReceiver());
  const worker = opened.use(
    await startWorker({ ...endpoint.env, ...alertEnvironment(endpoint) }),
  );
  const sql = connect();
  opened.defer(() => sql.end());
  await settleLeftovers(sql);
  await putOffAll(sql);
  await endPauses(sql);

  const subscription = uniqueId("sub");
  const early = invoiceEvent({ subscription });
  await deliver(receiver.url, early);
  await takeTurn(worker);
  const creation = subscriptionEvent("customer.subscription.created", {
    subscription,
  });
  const last = edited(invoiceEvent({ subscription }), {
    "data.object.hosted_invoice_url": "https://pay.example.com/in_1",
    "data.object.next_payment_attempt": null,
  });
  for (const event of [creation, last]) await deliver(receiver.url, event);
  await requestRetry(sql, early.id);
  await takeTurn(worker);
  return endpoint.arrivals;
}

function typeOf(value: unknown): string {
  if (value === null) return "null";
  if (typeof value !== "string") return typeof value;
  return TIME.test(value) ? "time" : "text";
}
