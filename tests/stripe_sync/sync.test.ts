import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { invoiceEvent, uniqueId } from "../../scripts/events/templates.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { fix } from "../../scripts/reconcile.ts";
import { importPages } from "../../scripts/stripe_sync/apply.ts";
import type { Context } from "../../scripts/stripe_sync/command.ts";
import type { Difference } from "../../scripts/stripe_sync/differences.ts";
import { findDifferences } from "../../scripts/stripe_sync/find_differences.ts";
import { fillIn, readPage, sqlBlocks } from "../support/docs.ts";
import { edited, withoutAccount } from "../support/edited.ts";
import { runScript } from "../support/run_script.ts";
import { connect, emptyTables } from "../support/tables.ts";
import {
  type Created,
  createStripeAccount,
  serveStripeApi,
  type StripeAccount,
  testContext,
} from "./stand_in.ts";

/** More than Stripe gives, and the database answers, in one page. */
const MANY = 1_200;
const sql = connect();
// reconcile compares all records, those of other tests included.
Deno.test.beforeEach(() => emptyTables(sql));
Deno.test.afterAll(() => sql.end());

async function recorded(count: number) {
  const account = createStripeAccount(count);
  account.nowSeconds -= 3_600;
  await using api = serveStripeApi(account);
  const context = testContext(api.url);
  await importPages(context.stripe.subscriptions(), context);
  account.nowSeconds += 3_600;
  return { account, ids: [...account.subscriptions.keys()] };
}

async function found(context: Context): Promise<readonly Difference[]> {
  return (await findDifferences(context)).differences;
}

async function fixed(context: Context): Promise<readonly Difference[]> {
  await fix(await findDifferences(context), context);
  return await found(context);
}

function undelivered(account: StripeAccount, ...events: Created[]): void {
  for (const event of events) account.events.set(event.id, event);
}

function namesOf(differences: readonly Difference[], kind: string) {
  return differences.filter((difference) => difference.kind === kind)
    .map(({ event, subscription }) => event ?? subscription).sort();
}

function kindsOf(differences: readonly Difference[]): string[] {
  return differences.map(({ kind }) => kind).sort();
}

Deno.test("import records many subscriptions, in spite of rate limits, once", async () => {
  const statuses = ["active", "trialing", "past_due", "canceled", "unpaid"];
  const account = createStripeAccount(
    MANY,
    (i) => ({ status: statuses[i % statuses.length]! }),
  );
  await using api = serveStripeApi(account, { busy: [0, 3, 4] });
  const args = ["--stripe-url", api.url];
  const first = await runScript("import", { args });
  assertEquals(first.code, 0, first.err);
  const counts = "imported, 0 corrected, 0 without an account ID, 0 failed";
  assertEquals(first.out, `${MANY} read, ${MANY} ${counts}\n`);
  assertStringIncludes(first.err, "Retrying in 1 s.");
  assertStringIncludes(first.err, "\n1000 read from Stripe\n");
  assertEquals(api.requests(), MANY / 100 + 3);

  const versions = async () => [
    ...await sql`
      select s.id, s.xmin::text, (select count(*) from billing.processed_events)
      from billing.subscriptions s
      -- Stripe does not say since when.
      where (s.status = 'past_due') = (s.past_due_since is not null)
      order by s.id`,
  ];
  const state = await versions();
  assertEquals(state.length, MANY);

  const second = await runScript("import", { args });
  assertEquals(second.out, `${MANY} read, 0 ${counts}\n`);
  assertEquals([second.code, await versions()], [0, state]);

  const last = [...account.subscriptions.keys()].sort().at(-1)!;
  account.subscriptions.delete(last);
  assertEquals<unknown>(await found(testContext(api.url)), [
    { kind: "missing_there", subscription: last },
  ]);
});

Deno.test("import lists subscriptions without an account ID; --account-from names another source", async () => {
  const account = createStripeAccount(5);
  const [older, newer, early, unclear, late] = account.subscriptions.values();
  assert(older && newer && early && unclear && late);
  // Stripe lists the newest first, so the account is known only afterwards.
  account.change(newer.id, {
    ...withoutAccount(newer),
    customer: older.customer,
  });
  // The customer has two accounts, of which only one is recorded before it.
  const { customer } = late;
  account.change(unclear.id, { ...withoutAccount(unclear), customer });
  account.change(early.id, { customer });
  await using api = serveStripeApi(account, { maxPage: 1 });
  const args = ["--stripe-url", api.url];
  const left = await runScript("import", { args });
  assertEquals(left.code, 1);
  for (
    const line of [
      "5 read, 4 imported, 0 corrected, 1 without an account ID, 0 failed",
      `no account     ${unclear.id}, customer ${customer}`,
      "add the customer to billing.customers, or use --account-from",
    ]
  ) assertStringIncludes(left.out, line);

  const env = { UNMAPPED_SUBSCRIPTIONS: "ignore" };
  const ignored = await runScript("import", { args, env });
  assertEquals(ignored.code, 0);
  assert(ignored.out.endsWith(" 1 without an account ID, 0 failed\n"));
  const from = ["--account-from", "customer"];
  const mapped = await runScript("import", { args: [...args, ...from] });
  assertEquals(mapped.code, 0, mapped.err);
  const owners = await sql`
    select account_id from billing.subscriptions order by id collate "C"`;
  assertEquals(
    owners.map(({ account_id }) => account_id),
    ["acc_0", "acc_0", "acc_2", customer, "acc_4"],
  );
});

Deno.test("import ends with an error for what it cannot read", async () => {
  const account = createStripeAccount(1);
  await using api = serveStripeApi(account);
  const key = "sk_live_stand_in";
  await using live = serveStripeApi(account, { key });
  const odd = createStripeAccount(1, () => ({ plan: "" }));
  await using unreadable = serveStripeApi(odd);
  const isLive = { STRIPE_API_KEY: key };
  for (
    const [line, env, code, reason] of [
      [`${live.url} --mode live`, isLive, 3, "is not in live mode"],
      [`${api.url} --project-url http://127.0.0.1:1`, {}, 3, "task start"],
      [unreadable.url, {}, 1, "not imported   sub"],
    ] as const
  ) {
    const args = `--stripe-url ${line}`.split(" ");
    const ended = await runScript("import", { args, env });
    assertEquals(ended.code, code, ended.err);
    assertStringIncludes(ended.err + ended.out, reason);
  }
  assertEquals([...await sql`select from billing.subscriptions`], []);
});

Deno.test("reconcile lists each kind of difference, and fixes what it can", async () => {
  const { account, ids: [one = "", other = ""] } = await recorded(2);
  const shown = account.change(one, { status: "canceled" });
  account.subscriptions.delete(other);
  const customer = uniqueId("cus");
  const nobodys = { ...withoutAccount(shown), id: "sub_nobodys", customer };
  account.change("sub_nobodys", nobodys);
  account.change("sub_new", { ...shown, id: "sub_new" });
  account.change("sub_odd", { ...shown, id: "sub_odd", items: { data: [] } });

  // The receiver refuses it, too: it would freeze its subscription until then.
  const future = subscriptionEvent("customer.subscription.updated", {
    subscription: one,
    status: "unpaid",
    created: Math.floor(Date.now() / 1000) + 60 * 86_400,
  });
  const invoice = uniqueId("in");
  const created = account.nowSeconds - 60;
  const payment = () => invoiceEvent({ subscription: one, invoice, created });
  const [payment1, payment2, resolved] = [payment(), payment(), payment()];
  const oneOff = edited(payment(), {
    "data.object.subscription": null,
    "data.object.parent": null,
    "data.object.lines": null,
  });
  undelivered(account, future, payment1, payment2, resolved, oneOff);
  await sql`
    insert into billing.failed_events
      (provider, event_id, payload_encoding, error_code, error)
    select 'a', id, 'json', 'apply_failed', 'x'
    from unnest(${["evt_old", resolved.id]}::text[]) as id`;
  await sql`select billing.resolve_failed_event(${resolved.id}, 'called', 'me')`;
  await sql`
    insert into billing.subscriptions (id, provider, account_id, status, plan_id)
    values ('grant_1', 'manual', 'acc_0', 'active', 'p')`;
  await using api = serveStripeApi(account);
  const args = ["--stripe-url", api.url];

  const dry = await runScript("reconcile", { args });
  assertEquals(dry.code, 1);
  for (
    const line of [
      `missing here   sub_new, account acc_0`,
      `no account     sub_nobodys, customer ${customer}`,
      `unreadable     sub_odd: data.object.items.data`,
      `missing there  ${other}`,
      `differs        ${one}: status is active here, canceled at Stripe; canceled_at is null here, set at Stripe`,
      `undelivered    ${future.id}, customer.subscription.updated, subscription ${one}`,
      `undelivered    ${payment1.id}, invoice.payment_failed, subscription ${one}`,
      "failed         evt_old, type unknown, subscription unknown: apply_failed",
      "9 differences. --apply fixes what it can, and deletes nothing.",
    ]
  ) assertStringIncludes(dry.out, line);
  assertEquals([...await sql`select from billing.notifications`], []);

  const env = { NOTIFY_ONCE_PER_INVOICE: "true" };
  const options = { args: [...args, "--apply"], env };
  const applied = await runScript("reconcile", options);
  assertEquals(applied.code, 1);
  assertStringIncludes(applied.out, `not fixed      ${future.id}: created`);
  assertStringIncludes(applied.out, "\n5 differences.\n");

  const rows = await sql`
    select id, status, canceled_at is not null as canceled
    from billing.subscriptions`;
  assertEquals(
    rows.map((row) => Object.values(row).join()).sort(),
    [
      `${one},canceled,true`,
      `${other},active,false`,
      "grant_1,active,false",
      "sub_new,canceled,true",
    ].sort(),
  );
  const notified = await sql`select invoice_id from billing.notifications`;
  assertEquals(notified.map(({ invoice_id }) => invoice_id), [invoice]);

  const from = ["--apply", "--json", "--account-from", "customer"];
  const { out } = await runScript("reconcile", { args: [...args, ...from] });
  const { differences, found, errors } = JSON.parse(out);
  const left = ["failed", "missing_there", "undelivered", "unreadable"];
  assertEquals(kindsOf(differences), left);
  assertEquals(kindsOf(found), [...left, "missing_here"].sort());
  assertEquals(Object.keys(errors), ["sub_odd", future.id]);
});

Deno.test("reconcile names marks ahead of the clock, and its page's SQL sets them back", async () => {
  const { account, ids: [one = ""] } = await recorded(1);
  // Marks are in quarters of microseconds.
  const day = 86_400e6 * 4;
  await sql`
    update billing.subscriptions set
      status = 'past_due',
      account_mark = changed_mark + ${day},
      changed_mark = changed_mark + 2 * ${day}::bigint,
      canceled_mark = changed_mark + 3 * ${day}::bigint
    where id = ${one}`;
  account.change(one, { metadata: { accountId: "acc_moved" } });

  await using api = serveStripeApi(account, { unlisted: new Set([one]) });
  const context = testContext(api.url);
  const errors = await fix(await findDifferences(context), context);
  assertStringIncludes(errors.get(one)!, "first set account_as_of back");
  assertEquals(namesOf(await found(context), "differs"), [one]);

  const page = sqlBlocks(readPage("docs/reconcile.md"), "reconcile.md");
  const { sql: block } = page.find(({ sql }) => sql.includes("_mark = 0"))!;
  await sql.unsafe(fillIn(block, { "subscription id": one }));
  account.nowSeconds += 60;
  assertEquals(await fixed(context), []);

  const [after] = await sql`
    select * from public.billing_records where id = ${one}`;
  const { account_id, account_as_of, changed_as_of, ...rest } = after!;
  assertEquals([rest.status, account_id], ["active", "acc_moved"]);
  assertEquals(account_as_of, changed_as_of);
  assert(changed_as_of.getTime() < account.nowSeconds * 1000);
});

Deno.test("what was erased is no difference, and is not recorded again", async () => {
  const { account, ids: [one = ""] } = await recorded(1);
  await sql`select billing.erase_account('acc_0', force => true)`;
  await using api = serveStripeApi(account);
  const args = ["--stripe-url", api.url];
  const skipped = `erased: skipped ${one}\n`;
  const compared = await runScript("reconcile", { args });
  assertEquals([compared.code, compared.out], [
    0,
    `${skipped}No differences.\n`,
  ]);
  const imported = await runScript("import", { args });
  assertEquals(imported.code, 0, imported.err);
  assertStringIncludes(
    imported.out,
    `${skipped}1 read, 0 imported, 0 corrected`,
  );
  await sql`delete from billing.erasures`;
});

Deno.test("an event on its way is no difference", async () => {
  const { account, ids: [one = ""] } = await recorded(1);
  account.change(one, { status: "past_due" });
  await using api = serveStripeApi(account, {
    beforeAnswer: async (path) => {
      // The event arrives while reconcile lists Stripe's events.
      if (path !== "/v1/events") return;
      await sql`
        update billing.subscriptions
        set status = 'past_due', provider_status = 'past_due' where id = ${one}`;
    },
  });
  assertEquals(await found(testContext(api.url)), []);
});

Deno.test("reconcile records subscriptions without an account ID of known customers", async () => {
  const { account, ids: [one = ""] } = await recorded(1);
  const shown = account.subscriptions.get(one)!;
  const nameless = withoutAccount(shown);
  const customer = uniqueId("cus");
  const known = uniqueId("sub_known");
  const older = uniqueId("sub_older");
  const newer = uniqueId("sub_newer");
  const [before, after] = [1_000_000_000, 1_800_000_000];
  account.change(known, { ...nameless, id: known });
  account.change(older, { ...shown, id: older, customer, created: before });
  account.change(newer, { ...nameless, id: newer, customer, created: after });
  for (const subscription of [known, "sub_unknown"]) {
    const created = account.nowSeconds - 60;
    const invoice = { subscription, customer: shown.customer, created };
    undelivered(account, withoutAccount(invoiceEvent(invoice)));
  }

  await using api = serveStripeApi(account);
  const failing = await found(testContext(api.url));
  assertEquals(namesOf(failing, "missing_here"), [known, older].sort());
  assertEquals(namesOf(failing, "unmapped"), [newer]);
  const ignoring = testContext(api.url, { unmappedSubscriptions: "ignore" });
  assertEquals(namesOf(await found(ignoring), "unmapped"), []);

  // It names an account, so its creation is only late.
  const lost = invoiceEvent({ subscription: "sub_lost", account: "acc_1" });
  undelivered(account, lost);
  const left = await fixed(ignoring);
  assertEquals(left.map(({ event }) => event), [lost.id]);
  const owners = await sql`
    select account_id from billing.subscriptions
    union all select account_id from billing.notifications`;
  const accounts = owners.map(({ account_id }) => account_id);
  assertEquals(accounts, Array(5).fill("acc_0"));
});

Deno.test("reconcile applies the events of a subscription that is gone, oldest first", async () => {
  const account = createStripeAccount();
  const subscription = uniqueId("sub");
  const event = (type: "created" | "updated", second: number) =>
    subscriptionEvent(`customer.subscription.${type}`, {
      subscription,
      created: account.nowSeconds - 600 + second,
    });
  undelivered(account, event("created", 0));
  // More than one call takes, of changes and of IDs.
  for (let i = 1; i <= 250; i++) undelivered(account, event("updated", i));
  await using api = serveStripeApi(account);
  assertEquals(kindsOf(await fixed(testContext(api.url))), ["missing_there"]);
});

Deno.test("reconcile fixes the record, and leaves events with a handler alone", async () => {
  const { account, ids: [one = ""] } = await recorded(1);
  const about = { subscription: one, created: account.nowSeconds - 60 };
  const updated = "customer.subscription.updated" as const;
  const update = subscriptionEvent(updated, { ...about, status: "past_due" });
  const [lacking, plain] = [invoiceEvent(about), invoiceEvent(about)];
  account.change(one, { status: "past_due" });
  undelivered(account, update, lacking, plain);
  await sql`
    insert into billing.failed_events
      (provider, event_id, payload_encoding, error_code, error)
    values ('a', ${lacking.id}, 'json', 'handler_missing', 'x')`;
  await sql`
    create function billing.on_customer_subscription_updated(provider text, event jsonb)
    returns void language sql as ''`;

  await using api = serveStripeApi(account);
  const context = testContext(api.url);
  try {
    const errors = await fix(await findDifferences(context), context);
    assertEquals([...errors.keys()].sort(), [update.id, lacking.id].sort());
    const why = "billing.on_customer_subscription_updated must run for it";
    assertStringIncludes(`${errors.get(update.id)}`, why);
    assertEquals(kindsOf(await found(context)), ["failed", "undelivered"]);
  } finally {
    await sql`drop function billing.on_customer_subscription_updated`;
  }
  const applied = await sql`
    select event_id, s.status from billing.processed_events, billing.subscriptions s
    where event_id not like 'import_%'`;
  assertEquals([...applied], [{ event_id: plain.id, status: "past_due" }]);
});
