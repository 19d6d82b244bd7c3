/**
 * The most common case of the runbook, solved with statements from its page
 * only.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { edited } from "../support/edited.ts";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { startNotifiedEndpoint } from "../support/notified_endpoint.ts";
import { startReceiver } from "../support/receiver.ts";
import { deliver } from "../support/send.ts";
import { fillIn, readDoc, sqlBlocks } from "../support/sql_blocks.ts";
import { connect, storedEvent, subscriptionRecord } from "../support/tables.ts";
import { failureOf, settleLeftovers, takeTurn } from "../support/triage.ts";
import { startWorker } from "../support/worker.ts";
import { putOffAll } from "../support/outbox.ts";

const HEADING = "## The most common case: no account ID";

/** The statements of the section's steps. */
async function steps(): Promise<string[]> {
  const page = await readDoc("runbook.md");
  const section = page.split(HEADING)[1]?.split(/^## /m)[0] ?? "";
  return sqlBlocks(section, "runbook.md").map(({ sql }) => sql);
}

for (const provider of ["a", "b"] as const) {
  Deno.test(`a creation without account id, and what failed because of it, is found, repaired, retried and resolved by the runbook (provider ${provider})`, async () => {
    const [find, whose, repair, retry, check, ...more] = await steps();
    assert(find && whose && repair && retry && check && more.length === 0);

    await using endpoint = startNotifiedEndpoint();
    await using receiver = await startReceiver();
    await using worker = await startWorker(endpoint.env);
    const sql = connect();
    try {
      await settleLeftovers(sql);
      await putOffAll(sql);
      const paste = (statement: string, values: Record<string, string> = {}) =>
        sql.unsafe(fillIn(statement, values)).simple();
      const send = (event: object) =>
        deliver(receiver.url, event, { provider });

      // At the provider. The invoice arrives before the update.
      const subscription = uniqueId("sub");
      const account = uniqueId("acc");
      const start = Math.floor(Date.now() / 1000) - 600;
      const creation = edited(
        subscriptionEvent("customer.subscription.created", {
          subscription,
          created: start,
        }),
        { "data.object.metadata": {} },
      );
      const update = subscriptionEvent("customer.subscription.updated", {
        subscription,
        created: start + 60,
        plan: "price_updated",
        status: "past_due",
      });
      const invoice = invoiceEvent({ subscription, created: start + 120 });
      const events = [creation, invoice, update];
      const statuses = [];
      for (const event of events) statuses.push((await send(event)).status);
      assertEquals(statuses, [422, 500, 500]);
      assertEquals(await subscriptionRecord(sql, subscription), undefined);

      // Found.
      const found = await paste(find);
      assertEquals(found.length, 3);
      const first = found.find((row) => row["event_id"] === creation.id);
      assertStringIncludes(
        first?.["error"],
        "data.object.metadata.accountId",
      );
      assertEquals(
        found.map((row) => row["subscription_id"]),
        Array(3).fill(subscription),
      );
      const values = { "event id": creation.id, "account id": account };
      const [customer] = await paste(whose, values);
      assertEquals(
        customer?.["customer"],
        (creation.data.object as { customer?: string }).customer,
      );

      // Repaired; and the provider sends the old body once more.
      await paste(repair, values);
      assertEquals((await send(creation)).status, 500);
      const repaired = await failureOf(sql, creation.id, { provider });
      assertEquals(repaired.attempts, 2);
      assertEquals(
        repaired.original_payload,
        JSON.parse(JSON.stringify(creation)),
      );
      assertEquals(
        repaired.payload,
        JSON.parse(JSON.stringify(
          edited(creation, { "data.object.metadata.accountId": account }),
        )),
      );

      // Retried, with one statement.
      const [answer] = await paste(retry);
      assertStringIncludes(
        answer?.["retry_failed_events"],
        "Retry requested: 3.",
      );
      const turn = await takeTurn(worker);
      assertEquals(
        [turn.retries["claimed"], turn.retries["applied"]],
        [3, 3],
      );

      // Resolved.
      for (const event of events) {
        const row = await failureOf(sql, event.id, { provider });
        assertEquals(
          [row.resolution, row.retry_requested_at],
          ["applied", null],
        );
        assert(row.resolved_at instanceof Date);
      }
      const record = await subscriptionRecord(sql, subscription);
      assertEquals(
        [
          record?.["provider"],
          record?.["account_id"],
          record?.["status"],
          record?.["plan_id"],
          record?.["canceled_at"],
        ],
        [provider, account, "past_due", "price_updated", null],
      );
      const checked = await paste(check, values) as unknown as unknown[][];
      assertEquals(checked.map((rows) => rows.length), [0, 1]);
      assertEquals(turn.notifications["sent"], 1);
      assertEquals(
        endpoint.about(invoice.id).map(({ message }) =>
          message.data["account_id"]
        ),
        [account],
      );

      // The provider delivers again: nothing fails, and no notification is added.
      for (const event of [creation, update, invoice]) {
        assertEquals((await send(event)).status, 200);
        const { ledger, failures } = await storedEvent(sql, event.id);
        assertEquals(ledger.length, 1);
        assertEquals(failures.map((row) => row["resolution"]), ["applied"]);
      }
      const again = await takeTurn(worker);
      assertEquals(
        [again.retries["claimed"], again.notifications["claimed"]],
        [0, 0],
      );
      assertEquals(await subscriptionRecord(sql, subscription), record);
    } finally {
      await sql.end();
    }
  });
}
