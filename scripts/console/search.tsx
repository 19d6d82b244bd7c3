/** @jsxImportSource hono/jsx */
/** The search for an ID; for a subscription's ID, it is the page of the subscription. */
import { asTyped } from "../common/environment.ts";
import { PROVIDER_NAMES } from "../common/sign.ts";
import { failureTable, LISTED } from "./failures.tsx";
import { notificationTable } from "./notifications.tsx";
import type { Query, Row } from "../common/project_api.ts";
import { accountSection, grantForm, readAccount } from "./account.tsx";
import type { Project } from "./project.ts";
import * as ui from "./ui.tsx";

const FACTS =
  "status,provider_status,account_id,customer_id,plan_id,quantity,current_period_end,trial_end,cancel_at,canceled_at,past_due_since,paused,paused_until,provider,livemode,changed_as_of";

type Found = Awaited<ReturnType<typeof search>>;

export function addSearch({ app, project, show }: ui.Console): void {
  app.get("/search", async (c) => {
    // No ID contains NUL, but pasted text may.
    const id = (c.req.query("q") ?? "").replaceAll("\0", "").trim();
    const found = await search(project, id);
    return show(c, "Search", searchPage(id, found));
  });
}

async function search(project: Project, id: string) {
  async function find<Name extends Parameters<Project["read"]>[0]>(
    name: Name,
    columns: readonly string[],
    query: Query,
  ) {
    const found = await Promise.all(columns.map((column) =>
      project.read(name, {
        ...query,
        [column]: `eq.${id}`,
        limit: `${ui.PAGE_SIZE}`,
      })
    ));
    return found.flat();
  }

  // Every provider matches, also that of grants; the indexes begin with this column.
  const provider = `in.(${PROVIDER_NAMES},manual)`;
  const [records, failures, notifications, ledger] = await Promise.all([
    find("billing_records", ["id", "account_id", "customer_id"], { provider }),
    find(
      "billing_failed_events",
      ["event_id", "subscription_id", "customer_id", "account_id"],
      { select: `${LISTED},account_id`, order: "last_failed_at.desc" },
    ),
    find(
      "billing_notifications",
      ["event_id", "subscription_id"],
      { provider, order: "created_at.desc" },
    ),
    find("billing_processed_events", ["event_id"], { provider }),
  ]);

  // An account that only failures name is shown only if it is searched for.
  const accounts = new Set(records.map(({ account_id }) => account_id));
  if (failures.some(({ account_id }) => account_id === id)) accounts.add(id);
  const found = await Promise.all(
    [...accounts].map((account) => readAccount(project, account)),
  );

  return { accounts: found, records, failures, notifications, ledger };
}

function searchPage(id: string, found: Found) {
  const { accounts, records, failures, notifications, ledger } = found;
  return (
    <>
      <h1>Search: {ui.visible(id)}</h1>
      {Object.values(found).every((rows) => rows.length === 0) && [
        <p>
          Nothing has this ID. The search compares whole IDs of accounts,
          subscriptions, customers and events. An event that never arrived is
          not here: <code>{asTyped("reconcile")}</code> asks Stripe for it.
        </p>,
        id !== "" && grantForm(id),
      ]}

      {accounts.map(accountSection)}
      {ledger.map(handledCard)}
      {records.filter(({ provider }) => provider !== "manual")
        .map(recordSection)}

      {failures.length > 0 && [
        records.length === 0 && failures[0]?.subscription_id === id && (
          <p>
            There is no record: no creation of this subscription was applied.
          </p>
        ),
        <h2>Failures</h2>,
        failureTable(failures),
      ]}

      {notifications.length > 0 && [
        <h2>Notifications</h2>,
        notificationTable(notifications),
      ]}
    </>
  );
}

function handledCard(row: Found["ledger"][number]) {
  return (
    <article class="good">
      Event {ui.visible(row.event_id)} ({ui.value(row.type)}, provider{" "}
      {ui.visible(row.provider)}) was handled: {ui.value(row.outcome)}.{" "}
      {ui.time(row.processed_at)}
    </article>
  );
}

function recordSection(row: Found["records"][number]) {
  const items = (row.items ?? []) as unknown as Row<
    "billing_subscription_items"
  >[];
  return [
    <h2>Subscription {ui.linked(row.id)}</h2>,
    ui.facts(row, FACTS),
    ui.table(`Items of ${row.id}`, items, {
      Price: (item) => ui.value(item.price_id),
      Product: (item) => ui.value(item.product_id),
      Quantity: (item) => ui.value(item.quantity ?? item.usage_type),
      "Period end": (item) => ui.time(item.current_period_end),
    }),
  ];
}
