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
import { everySqlBlock, fillIn } from "../support/docs.ts";
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
  const its = {
    subscription: uniqueId("sub"),
    account,
    customer: uniqueId("cus"),
  };
  for (
    const event of [
      subscriptionEvent("customer.subscription.created", its),
      invoiceEvent(its),
    ]
  ) {
    const wire = { ...handledEvent.parse(event), provider: "a", place: 1 };
    await tx`
      select public.billing_apply_events(${
      JSON.stringify([wire])
    }::text::jsonb)`;
  }

  /** The failure of an update, of which only these parts name the account. */
  const update = (own: Partial<typeof its>) =>
    subscriptionEvent("customer.subscription.updated", {
      subscription: uniqueId("sub"),
      account: "acc_none",
      customer: uniqueId("cus"),
      ...own,
    });
  const { subscription, customer } = its;
  const expanded = edited(update({}), {
    "data.object.customer": { id: customer, object: "customer" },
  });
  // What jsonb cannot hold is stored as text, with the spaces that it had.
  const asText = () =>
    edited(update({ account }), { "data.object.description": "\u0000" });
  const repaired = update({ account });
  for (
    const [event, indent] of [
      [update({ account })],
      [update({ subscription })],
      [update({ customer })],
      [invoiceEvent({ ...its, account: "acc_none", customer: null })],
      [expanded],
      [asText()],
      [asText(), 2],
      [repaired],
    ] as const
  ) {
    const { kind, subscription_id, customer_id, account_id } = describeEvent(
      event,
    );
    await tx`
      select public.billing_record_failed_event(
        p_provider => 'a', p_event_id => ${event.id},
        p_body => ${JSON.stringify(event, null, indent)},
        p_body_encoding => 'text', p_error_code => 'event_invalid',
        p_error => 'Failed', p_type => ${event.type}, p_kind => ${kind!},
        p_subscription_id => ${subscription_id ?? null},
        p_customer_id => ${customer_id ?? null},
        p_account_id => ${account_id ?? null}
      )`;
  }
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
  const rows: Record<string, string[]> = {};
  for (const table of TABLES) {
    const found = await tx`select t::text as row from ${tx(table)} t`;
    rows[table] = found.map((it) => String(it["row"])).sort();
  }
  const { "billing.processed_events": ledger = [], ...others } = rows;
  return { ledger, others };
}

const block = everySqlBlock().find(({ sql }) =>
  sql.includes("delete from billing.subscriptions where account_id")
);

// An event has such texts elsewhere, too: prices and statuses.
for (const account of ["acc_1", "1900", "19000", "active", `it's "quoted"`]) {
  Deno.test(`the runbook's statement deletes account ${account}, and nothing of another`, async () => {
    const nothing = new Error("nothing of it stays");
    await sql.begin("isolation level repeatable read", async (tx) => {
      // Every row is compared, and other tests leave a hundred thousand.
      await tx`truncate ${tx(TABLES)}`;
      await makeAccount("acc_other", tx);
      const before = await everyRow(tx);
      await makeAccount(account, tx);
      const made = await everyRow(tx);
      assertEquals(made.others["billing.failed_events"]?.length, 16);
      const id = account.replaceAll("'", "''");
      await tx.unsafe(fillIn(block?.sql ?? "", { "account id": id }));
      const after = await everyRow(tx);
      assertEquals(after.others, before.others);
      // The ledger has IDs of events only.
      assertEquals(after.ledger, made.ledger);
      throw nothing;
    }).catch((error) => {
      if (error !== nothing) throw error;
    });
  });
}
