/**
 * docs/runbook.md, "Delete an account": its statement deletes what is stored of
 * an account, and nothing else.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import type postgres from "postgres";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import {
  describeEvent,
  handledEvent,
} from "../../supabase/functions/_shared/billing/formats/stripe.ts";
import { edited } from "../support/edited.ts";
import { everySqlBlock, fillIn } from "../support/sql_blocks.ts";
import { connect } from "../support/tables.ts";

const sql = connect();
Deno.test.afterAll(() => sql.end());

const TABLES = (await sql`
  select tablename from pg_tables where schemaname = 'billing' order by 1`)
  .map(({ tablename }) => `billing.${tablename}`);

/** Makes something of an account in every table that can hold any. */
async function makeAccount(
  account: string,
  tx: postgres.TransactionSql,
): Promise<void> {
  const subscription = uniqueId("sub");
  const customer = uniqueId("cus");
  const its = { subscription, account, customer };
  const unknown = {
    subscription: uniqueId("sub"),
    account: "acc_none",
    customer: uniqueId("cus"),
  };

  async function apply(event: object): Promise<void> {
    const events = [
      { ...handledEvent.parse(event), provider: "a", place: 1 },
    ];
    const [row] = await tx`
      select outcome
      from public.billing_apply_events(${JSON.stringify(events)}::text::jsonb)`;
    assertEquals(row?.["outcome"], "applied");
  }
  async function fail(
    event: { id: string; type: string },
    body = JSON.stringify(event),
  ): Promise<void> {
    const it = describeEvent(event);
    await tx`
      select public.billing_record_failed_event(
        p_provider => 'a', p_event_id => ${event.id}, p_body => ${body},
        p_body_encoding => 'text', p_error_code => 'event_invalid',
        p_error => 'Failed', p_type => ${event.type}, p_kind => ${it.kind!},
        p_subscription_id => ${it.subscription_id ?? null},
        p_customer_id => ${it.customer_id ?? null},
        p_account_id => ${it.account_id ?? null}
      )`;
  }

  await apply(subscriptionEvent("customer.subscription.created", its));
  await apply(invoiceEvent(its));

  // Each names the account in another way.
  const update = "customer.subscription.updated";
  await fail(subscriptionEvent(update, { ...unknown, account }));
  await fail(subscriptionEvent(update, { ...unknown, subscription }));
  await fail(subscriptionEvent(update, { ...unknown, customer }));
  await fail(invoiceEvent({ ...unknown, subscription }));
  await fail(edited(subscriptionEvent(update, unknown), {
    "data.object.customer": { id: customer, object: "customer" },
  }));
  // What jsonb cannot hold is stored as text, with the spaces that it had.
  for (const indent of [0, 2]) {
    const event = edited(
      subscriptionEvent(update, { ...unknown, account }),
      { "data.object.description": "\u0000" },
    );
    await fail(event, JSON.stringify(event, null, indent));
  }
  const repaired = subscriptionEvent(update, { ...unknown, account });
  await fail(repaired);
  const repair = edited(repaired, {
    "data.object.metadata.accountId": "acc_other",
  });
  await tx`
    update billing.failed_events
    set payload = ${JSON.stringify(repair)}::text::jsonb
    where event_id = ${repaired.id}`;
}

/** Every row, by its table. */
async function everyRow(tx: postgres.TransactionSql) {
  const rows = new Map<string, string[]>();
  for (const table of TABLES) {
    const found = await tx`select t::text as row from ${tx(table)} t`;
    rows.set(table, found.map((it) => String(it["row"])).sort());
  }
  return rows;
}

// An event has such texts elsewhere, too: prices and statuses.
for (const account of ["acc_1", "1900", "19000", "active", `it's "quoted"`]) {
  Deno.test(`the runbook's statement deletes account ${account}, and nothing of another`, async () => {
    const block = (await everySqlBlock())
      .find(({ sql }) =>
        sql.includes("delete from billing.subscriptions where account_id")
      );
    const nothing = new Error("nothing of it stays");
    await sql.begin("isolation level repeatable read", async (tx) => {
      // Every row is compared, and other tests leave a hundred thousand.
      await tx`truncate ${tx(TABLES)}`;
      await makeAccount("acc_other", tx);
      const before = await everyRow(tx);
      const [ledger] = await tx`
        select count(*)::int as before from billing.processed_events`;
      await makeAccount(account, tx);
      const text = fillIn(block?.sql ?? "", {
        "account id": account.replaceAll("'", "''"),
      });
      await tx.unsafe(text);
      const after = await everyRow(tx);
      // The ledger has IDs of events only.
      assertEquals(
        after.get("billing.processed_events")?.length,
        ledger?.["before"] + 2,
      );
      for (const table of TABLES) {
        if (table === "billing.processed_events") continue;
        assertEquals(after.get(table), before.get(table), table);
      }
      throw nothing;
    }).catch((error) => {
      if (error !== nothing) throw error;
    });
  });
}
