/**
 * The most common case of the runbook, solved with statements from its page
 * only.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { edited } from "../support/edited.ts";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { startNotifiedEndpoint } from "../support/notified.ts";
import { failureOf, putOffAll, settleLeftovers } from "../support/queues.ts";
import { startReceiver, startWorker, takeTurn } from "../support/functions.ts";
import { deliver } from "../support/send.ts";
import { fillIn, readPage, sqlBlocks } from "../support/docs.ts";
import { connect, storedEvent, subscriptionRecord } from "../support/tables.ts";

const HEADING = "## The most common case: no account ID";
/** Most tests have events of provider a. */
const provider = "b";

const sql = connect();
Deno.test.afterAll(() => sql.end());

/** The statements of the section's steps. */
function steps(): string[] {
  const page = readPage("docs/runbook.md");
  const section = page.split(HEADING)[1]?.split(/^## /m)[0] ?? "";
  return sqlBlocks(section, "runbook.md").map(({ sql }) => sql);
}

Deno.test("a creation without account id, and what failed because of it, is found, repaired, retried and resolved by the runbook", async () => {
  const [find, whose, repair, retry, check, ...more] = steps();
  assert(find && whose && repair && retry && check && more.length === 0);
  await using endpoint = startNotifiedEndpoint();
  await using receiver = await startReceiver();
  await using worker = await startWorker(endpoint.env);
  await settleLeftovers(sql);
  await putOffAll(sql);
  const paste = (statement: string, values: Record<string, string> = {}) =>
    sql.unsafe(fillIn(statement, values)).simple();
  const send = async (event: object) =>
    (await deliver(receiver.url, event, { provider })).status;

  // At the provider. The invoice arrives before the update.
  const [subscription, account] = [uniqueId("sub"), uniqueId("acc")];
  const created = Math.floor(Date.now() / 1000) - 600;
  const creation = edited(
    subscriptionEvent("customer.subscription.created", {
      subscription,
      created,
    }),
    { "data.object.metadata": {} },
  );
  const update = subscriptionEvent("customer.subscription.updated", {
    subscription,
    created: created + 60,
    plan: "price_updated",
    status: "past_due",
  });
  const invoice = invoiceEvent({ subscription, created: created + 120 });
  const events = [creation, invoice, update];
  const statuses = [];
  for (const event of events) statuses.push(await send(event));
  assertEquals(statuses, [422, 500, 500]);

  // Found.
  const found = await paste(find);
  assertEquals(
    found.map((row) => row["subscription_id"]),
    Array(3).fill(subscription),
  );
  const first = found.find((row) => row["event_id"] === creation.id);
  assertStringIncludes(first?.["error"], "data.object.metadata.accountId");
  const values = { "event id": creation.id, "account id": account };
  const [customer] = await paste(whose, values);
  const { customer: ofEvent } = creation.data.object as { customer?: string };
  assertEquals(customer?.["customer"], ofEvent);

  // Repaired; and the provider sends the old body once more.
  await paste(repair, values);
  assertEquals(await send(creation), 500);
  const repaired = await failureOf(sql, creation.id, { provider });
  const asSent = JSON.parse(JSON.stringify(creation));
  assertEquals([repaired.attempts, repaired.original_payload], [2, asSent]);
  const fixed = { "data.object.metadata.accountId": account };
  assertEquals(repaired.payload, edited(asSent, fixed));

  // Retried, with one statement.
  const [answer] = await paste(retry);
  assertStringIncludes(answer?.["retry_failed_events"], "Retry requested: 3.");
  const { retries, notifications } = await takeTurn(worker);
  assertEquals(
    [retries["claimed"], retries["applied"], notifications["sent"]],
    [3, 3, 1],
  );

  // Resolved.
  const record = await subscriptionRecord(sql, subscription);
  assertEquals(
    [record?.["account_id"], record?.["status"], record?.["plan_id"]],
    [account, "past_due", "price_updated"],
  );
  const checked = await paste(check, values) as unknown as unknown[][];
  assertEquals(checked.map((rows) => rows.length), [0, 1]);
  assertEquals(
    endpoint.about(invoice.id).map(({ message }) => message.data["account_id"]),
    [account],
  );

  // The provider delivers again: nothing fails, and no notification is added.
  for (const event of events) {
    assertEquals(await send(event), 200);
    const { ledger, failures } = await storedEvent(sql, event.id);
    assertEquals([ledger.length, failures[0]?.["resolution"]], [1, "applied"]);
  }
  const again = await takeTurn(worker);
  assertEquals(
    [again.retries["claimed"], again.notifications["claimed"]],
    [0, 0],
  );
  assertEquals(await subscriptionRecord(sql, subscription), record);
});
