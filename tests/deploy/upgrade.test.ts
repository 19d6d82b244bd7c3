/**
 * A database of the previous version, upgraded by the migrations of this one:
 * every row stays as it was, calls of the previous receiver and worker still
 * work, and events of this version fill the new columns.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import type postgres from "postgres";
import { localKeys } from "../../scripts/common/keys.ts";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { handleWebhook } from "../../supabase/functions/billing-webhook/handle_webhook.ts";
import { providerHeaders } from "../support/send.ts";
import { testReceiver } from "../support/test_receiver.ts";
import { createUpgradedProject } from "../support/upgraded_project.ts";
import { migrationVersions } from "../support/migrate_part.ts";
import {
  BUSY_SECOND,
  NEXT_VERSION,
  oldCreation,
  oldDeletion,
  oldFailedPayment,
  oldUpdate,
  TABLES,
} from "../support/previous_version.ts";

/** Columns that null or an empty value stands in until an event fills them. */
const NEW_COLUMNS = {
  subscriptions: [
    "provider_status",
    "customer_id",
    "quantity",
    "cancel_at",
    "trial_end",
    "paused",
    "livemode",
    "past_due_since",
  ],
  notifications: [
    "hosted_invoice_url",
    "amount_due",
    "currency",
    "attempt_count",
    "next_payment_attempt",
  ],
} as const;

type Rows = Record<typeof TABLES[number], Record<string, unknown>[]>;

const project = await createUpgradedProject(
  "upgraded",
  async (sql) => ({
    versions: await appliedVersions(sql),
    rows: await allRows(sql),
  }),
);
const { sql, before, after } = project;
const keys = await localKeys();
Deno.test.afterAll(async () => await project[Symbol.asyncDispose]());

async function appliedVersions(sql: postgres.Sql): Promise<string[]> {
  const rows = await sql`
    select version from supabase_migrations.schema_migrations order by version`;
  return rows.map(({ version }) => version);
}

/** The rows of each table. Dates as text: a Date would drop microseconds. */
async function allRows(sql: postgres.Sql): Promise<Rows> {
  const rows: Partial<Rows> = {};
  for (const table of TABLES) {
    const found = await sql`
      select to_jsonb(t) as row from ${
      sql(`public.${table}`)
    } t order by t::text`;
    rows[table] = found.map(({ row }) => row);
  }
  return rows as Rows;
}

/** Calls a database function as the previous version does: by argument names. */
async function call(name: string, body: object): Promise<unknown> {
  const response = await fetch(`${project.url}/rest/v1/rpc/${name}`, {
    method: "POST",
    headers: { apikey: keys.secret, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const answer = await response.json();
  assertEquals(response.status, 200, JSON.stringify(answer));
  return answer;
}

Deno.test("an upgrade applies the migrations of this version to one that has the others", () => {
  const versions = migrationVersions();
  const older = versions.filter((version) => version < NEXT_VERSION);
  assert(older.length > 20 && older.length < versions.length);
  assertEquals(before.versions, older);
  assertEquals(after.versions, versions);
});

Deno.test("an upgrade keeps every row and every value, and leaves new columns empty", () => {
  for (const table of TABLES) {
    const old = before.rows[table];
    assert(old.length > 0, table);
    const columns = Object.keys(old[0] ?? {});
    assertEquals(
      sorted(after.rows[table].map((row) => pick(row, columns))),
      sorted(old),
      table,
    );
  }
  for (const [table, columns] of Object.entries(NEW_COLUMNS)) {
    for (const row of after.rows[table as keyof typeof NEW_COLUMNS]) {
      assertEquals(
        pick(row, columns),
        Object.fromEntries(columns.map((column) => [column, null])),
      );
    }
  }
});

function pick(row: Record<string, unknown>, columns: readonly string[]) {
  return Object.fromEntries(columns.map((column) => [column, row[column]]));
}

function sorted(rows: readonly object[]): string[] {
  return rows.map((row) => JSON.stringify(row)).sort();
}

/** This version's receiver takes an event. */
async function receive(event: object): Promise<void> {
  const receiver = await testReceiver({ supabaseUrl: project.url });
  const body = JSON.stringify(event);
  const request = new Request("http://localhost/billing-webhook", {
    method: "POST",
    headers: providerHeaders(body, "a"),
    body,
  });
  const response = await handleWebhook(request, receiver);
  assertEquals([response.status, await response.text()], [200, "OK"]);
}

Deno.test("after an upgrade, the next event of a subscription fills its new columns", async () => {
  const second = Date.parse(BUSY_SECOND) / 1000;
  const reported = {
    account: "acc_1",
    customer: "cus_1",
    quantity: 3,
    cancelAtPeriodEnd: true,
    periodEnd: 1_775_000_000,
    trialEnd: 1_770_000_000,
    paused: "void",
  };
  for (
    const event of [
      subscriptionEvent("customer.subscription.updated", {
        ...reported,
        subscription: "sub_active",
        created: second + 60,
        status: "past_due",
        previous: { status: "active" },
      }),
      // In the second whose updates the record remembers.
      subscriptionEvent("customer.subscription.updated", {
        ...reported,
        subscription: "sub_past_due",
        created: second,
        status: "past_due",
        plan: "price_2",
        previous: { quantity: 1 },
      }),
    ]
  ) {
    await receive(event);
  }
  const columns = NEW_COLUMNS.subscriptions;
  const rows = await sql`
    select ${sql(["id", ...columns])} from public.subscriptions
    where id in ('sub_active', 'sub_past_due') order by id`;
  const filled = {
    provider_status: "past_due",
    customer_id: "cus_1",
    quantity: 3,
    cancel_at: new Date(1_775_000_000_000),
    trial_end: new Date(1_770_000_000_000),
    paused: "void",
    livemode: false,
  };
  assertEquals(rows.map((row) => ({ ...row })), [
    {
      ...filled,
      id: "sub_active",
      past_due_since: new Date((second + 60) * 1000),
    },
    // It was past_due before there was the column.
    { ...filled, id: "sub_past_due", past_due_since: null },
  ]);
});

Deno.test("after an upgrade, a failed payment's notification has the new columns", async () => {
  const event = invoiceEvent({ subscription: "sub_active" });
  await receive(event);
  const rows = await sql`
    select ${sql(NEW_COLUMNS.notifications)} from public.notifications
    where event_id = ${event.id}`;
  assertEquals(rows.length, 1);
  for (const column of NEW_COLUMNS.notifications) {
    assert(rows[0]?.[column] !== null, column);
  }
});

Deno.test("after an upgrade, the previous receiver's calls still work", async () => {
  const events = [
    oldCreation("sub_old", BUSY_SECOND),
    oldUpdate("sub_old", "2026-02-02T02:41:00Z", {
      status: "past_due",
      previous: { status: "active" },
    }),
    // In the second that the record remembers, and before its last update.
    oldUpdate("sub_past_due", BUSY_SECOND, {
      status: "unpaid",
      plan_id: "price_3",
      previous: { plan_id: "price_2", status: "past_due" },
      n: 3,
    }),
    oldUpdate("sub_quiet", "2020-01-01T00:00:00Z", { status: "unpaid" }),
    oldDeletion("sub_unknown", "2020-01-01T00:00:00Z"),
    oldFailedPayment("sub_old", "evt_old_invoice"),
    // Applied before the upgrade.
    oldCreation("sub_active", BUSY_SECOND),
  ];
  const answers = await call("apply_billing_events", { events }) as {
    place: number;
    outcome: string;
  }[];
  assertEquals(
    answers.sort((one, other) => one.place - other.place)
      .map(({ outcome }) => outcome),
    [
      "applied",
      "applied",
      "applied",
      "stale",
      "failed",
      "applied",
      "duplicate",
    ],
  );
  const rows = await sql`
    select id, status, plan_id from public.subscriptions
    where id in ('sub_old', 'sub_past_due', 'sub_quiet') order by id`;
  assertEquals(rows.map((row) => Object.values(row)), [
    ["sub_old", "past_due", "price_1"],
    ["sub_past_due", "unpaid", "price_3"],
    ["sub_quiet", "active", "price_1"],
  ]);

  const isStored = await call("record_failed_event", {
    p_provider: "a",
    p_event_id: "evt_new_failure",
    p_body: '{"id": "evt_new_failure"}',
    p_body_encoding: "text",
    p_error_code: "event_invalid",
    p_error: "No type",
    p_type: "customer.subscription.created",
  });
  assertEquals(isStored, true);
});

Deno.test("after an upgrade, the previous worker's calls still work", async () => {
  const claimed = await call("claim_notifications", {
    p_limit: 100,
    p_lease_seconds: 60,
    p_destination: "other.example",
    p_per_second: 1_000,
  }) as Record<string, unknown>[];
  const pending = claimed.find(({ event_id }) => event_id === "evt_pending");
  assert(pending !== undefined, JSON.stringify(claimed));
  const { id, lease_id } = pending;
  assertEquals(
    pick(pending, [
      "attempt",
      "provider",
      "event_id",
      "account_id",
      "subscription_id",
      "invoice_id",
    ]),
    {
      attempt: 1,
      provider: "a",
      event_id: "evt_pending",
      account_id: "acc_1",
      subscription_id: "sub_active",
      invoice_id: "in_evt_pending",
    },
  );
  assert(!claimed.some(({ event_id }) => event_id === "evt_leased"));
  assertEquals(typeof pending["wait_ms"], "number");
  assert(!Number.isNaN(Date.parse(String(pending["created_at"]))));
  const results = [{
    id,
    lease_id,
    result: "sent",
    error: null,
    retry_after_seconds: null,
  }];
  assertEquals(
    await call("settle_notifications", {
      results,
      p_destination: "other.example",
    }),
    1,
  );

  const failures = await call("claim_failed_events", {
    p_limit: 10,
    p_lease_seconds: 60,
  }) as Record<string, unknown>[];
  assertEquals(
    failures.map(({ event_id, body, body_encoding }) => [
      event_id,
      JSON.parse(String(body)),
      body_encoding,
    ]),
    [["evt_requested", { id: "evt_requested" }, "text"]],
  );
  assertEquals(
    await call("settle_failed_events", {
      results: failures.map(({ provider, event_id, lease_id }) => ({
        provider,
        event_id,
        lease_id,
        outcome: "failed",
        error_code: "event_invalid",
        error: "No type",
      })),
    }),
    1,
  );
  assertEquals(await call("account_email", { account_id: "acc_1" }), null);
});

Deno.test("after an upgrade, failures from before it can be repaired and retried", async () => {
  const [health] = await sql`select open_failures from public.billing_health`;
  assert(Number(health?.["open_failures"]) >= 6);
  await sql`
    update public.failed_events
    set payload = payload || '{"repaired": true}' where event_id = 'evt_open'`;
  await sql`select public.retry_failed_event('evt_open')`;
  const [failure] = await sql`
    select original_payload, retry_requested_at from public.failed_events
    where event_id = 'evt_open'`;
  assertEquals(failure?.["original_payload"], { id: "evt_open" });
  assert(failure?.["retry_requested_at"]);
});
