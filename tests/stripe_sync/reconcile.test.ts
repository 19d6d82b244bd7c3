/**
 * `deno task reconcile` after some events never arrived.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { publishRunningStack } from "../../scripts/common/running_stack.ts";
import type { StripeEvent } from "../../scripts/events/event_types.ts";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { fix } from "../../scripts/reconcile.ts";
import { importPages, noProgress } from "../../scripts/stripe_sync/apply.ts";
import type { Context } from "../../scripts/stripe_sync/context.ts";
import {
  type Difference,
  differenceLine,
} from "../../scripts/stripe_sync/differences.ts";
import { findDifferences } from "../../scripts/stripe_sync/find_differences.ts";
import { eventBody } from "../property/histories/event_body.ts";
import type { HistoryEvent } from "../property/histories/history.ts";
import { freshSeed } from "../support/random.ts";
import { startReceiver } from "../support/functions.ts";
import { runScript } from "../support/run_script.ts";
import { deliver } from "../support/send.ts";
import { connect } from "../support/tables.ts";
import { setting } from "../support/test_environment.ts";
import { withoutAccount } from "../support/edited.ts";
import { assertRecords, randomEvents } from "./model.ts";
import {
  createStripeAccount,
  serveStripeApi,
  type StripeAccount,
  testContext,
} from "./stand_in.ts";

const EVENTS = 400;

const sql = connect();
const receiver = await startReceiver();
Deno.test.beforeEach(async () => {
  // reconcile compares all records, those of other tests included.
  await sql`
    truncate billing.subscriptions, billing.processed_events, billing.failed_events, billing.notifications`;
});
Deno.test.afterAll(async () => {
  await receiver[Symbol.asyncDispose]();
  await sql.end();
});

/** Runs it with `--json`. */
async function reconcile(url: string, ...options: string[]) {
  const args = ["--stripe-url", url, "--json", ...options];
  const { code, out, err } = await runScript("reconcile", { args });
  assert(out !== "", err);
  return { code, ...JSON.parse(out) } as {
    code: number;
    found: Difference[];
    differences: Difference[];
    errors: Record<string, string>;
  };
}

async function found(context: Context): Promise<readonly Difference[]> {
  return (await findDifferences(context)).differences;
}

/** Fixes what is found, and returns what still differs. */
async function fixed(context: Context): Promise<readonly Difference[]> {
  await fix(await findDifferences(context), context);
  return await found(context);
}

/** An account whose subscriptions are recorded, an hour later. */
async function recorded(count: number) {
  const account = createStripeAccount(count);
  account.nowSeconds -= 3_600;
  await using api = await serveStripeApi(account);
  const context = testContext(api.url);
  await importPages(context.stripe.subscriptions(), noProgress(), context);
  account.nowSeconds += 3_600;
  return { account, ids: [...account.subscriptions.keys()] };
}

function someCreation(): HistoryEvent {
  const prefix = uniqueId("created");
  const [{ values, ...creation }] = randomEvents(1, { seed: 1, prefix }) as [
    HistoryEvent,
  ];
  return { ...creation, values: { ...values, status: "active" } };
}

/** A delivered creation of an active subscription, so that the record is as at Stripe. */
async function created(account: StripeAccount): Promise<HistoryEvent> {
  const creation = someCreation();
  account.happen(creation);
  await deliver(receiver.url, eventBody(creation));
  account.delivered.add(creation.id);
  return creation;
}

/** Adds events that Stripe could not deliver. */
function undelivered(account: StripeAccount, ...events: object[]): void {
  for (const event of events) {
    const listed: StripeEvent = JSON.parse(JSON.stringify(event));
    account.events.set(listed.id, listed);
  }
}

function namesOf(differences: readonly Difference[], ...kinds: string[]) {
  return differences.filter(({ kind }) => kinds.includes(kind))
    .map((difference) =>
      "event" in difference ? difference.event : difference.subscription
    ).sort();
}

function kindsOf(differences: readonly Difference[]): string[] {
  return differences.map(({ kind }) => kind).sort();
}

Deno.test("without a URL, import and reconcile find the local stack that runs", async () => {
  const folder = await Deno.makeTempDir();
  await using _running = await publishRunningStack(folder, {
    apiUrl: setting("TEST_API_URL"),
    dbUrl: setting("TEST_DATABASE_URL"),
  });
  await using api = await serveStripeApi(createStripeAccount());
  for (const name of ["import", "reconcile"] as const) {
    const { code, err } = await runScript(name, {
      args: ["--stripe-url", api.url],
      env: { SUPABASE_URL: "", BILLING_STACK_DATA: folder },
    });
    assertEquals(code, 0, err);
    assertStringIncludes(err, setting("TEST_API_URL"));
  }
  await Deno.remove(folder, { recursive: true });
});

Deno.test("reconcile lists each event that was withheld, fixes everything, and then finds nothing", async () => {
  const seed = freshSeed();
  const events = randomEvents(EVENTS, { seed, prefix: uniqueId("reconcile") });
  const account = createStripeAccount();
  events.forEach(account.happen);
  account.nowSeconds += 60;
  const withheld = events.filter((_, i) => i % 10 === 9).map(({ id }) => id);
  const failed: string[] = [];
  for (const event of events) {
    if (withheld.includes(event.id)) continue;
    const { status } = await deliver(receiver.url, eventBody(event));
    if (status === 200) account.delivered.add(event.id);
    else failed.push(event.id);
  }
  await using api = await serveStripeApi(account);

  const dry = await reconcile(api.url);
  assertEquals(dry.code, 1, `seed ${seed}`);
  assertEquals(namesOf(dry.differences, "undelivered"), withheld.sort());
  assertEquals(namesOf(dry.differences, "failed"), failed.sort());
  const [before] =
    await sql`select count(*)::int from billing.processed_events`;
  assertEquals(before?.["count"], account.delivered.size, "Applied something");

  const applied = await reconcile(api.url, "--apply");
  const { code, differences, found, errors } = applied;
  assertEquals([code, differences, errors], [0, [], {}], `seed ${seed}`);
  assertEquals(kindsOf(found), kindsOf(dry.differences));
  const missing = new Set(namesOf(found, "missing_here"));
  await assertRecords(events, sql, (id) => !missing.has(id));
  const notified = await sql`select from billing.notifications`;
  const invoices = events.filter(({ type }) => type.startsWith("invoice."));
  assertEquals(notified.length, invoices.length);
  const args = ["--stripe-url", api.url];
  const { out } = await runScript("reconcile", { args });
  assertEquals(out, "No differences.\n");
});

Deno.test("reconcile lists each kind of difference, fixes what it can, and deletes nothing", async () => {
  const { account, ids: [one = "", other = ""] } = await recorded(2);
  const shown = account.change(one, { status: "canceled" });
  account.subscriptions.delete(other);
  const customer = uniqueId("cus");
  const nobodys = { ...withoutAccount(shown), id: "sub_nobodys", customer };
  account.change("sub_nobodys", nobodys);
  account.change("sub_new", { ...shown, id: "sub_new" });
  account.change("sub_odd", { ...shown, id: "sub_odd", items: { data: [] } });
  // Refused as by the receiver: it would freeze its subscription until then.
  const future = subscriptionEvent("customer.subscription.updated", {
    subscription: one,
    status: "unpaid",
    created: Math.floor(Date.now() / 1000) + 60 * 86_400,
  });
  undelivered(account, future);
  await sql`
    insert into billing.failed_events (provider, event_id, type, payload_encoding, error_code, error)
    values ('a', 'evt_old', 'customer.subscription.updated', 'json', 'apply_failed', 'x')`;
  await using api = await serveStripeApi(account);
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
      `failed         evt_old, customer.subscription.updated, subscription unknown: apply_failed`,
      "7 differences. --apply fixes what it can, and deletes nothing.",
    ]
  ) assertStringIncludes(dry.out, line);

  const applied = await runScript("reconcile", { args: [...args, "--apply"] });
  assertEquals(applied.code, 1);
  assertStringIncludes(applied.out, `not fixed      ${future.id}: created`);
  assertStringIncludes(applied.out, "\n5 differences.\n");
  const rows = await sql`
    select id, status, canceled_at is not null as canceled
    from billing.subscriptions`;
  assertEquals(
    rows.map((row) => Object.values(row).join()).sort(),
    [`${one},canceled,true`, `${other},active,false`, "sub_new,canceled,true"]
      .sort(),
  );

  const left = await fixed(testContext(api.url, { accountFrom: "customer" }));
  const kinds = ["failed", "missing_there", "undelivered", "unreadable"];
  assertEquals(kindsOf(left), kinds);
});

Deno.test("reconcile ignores an event that was resolved by hand", async () => {
  const account = createStripeAccount();
  const { id, subscription, created: at } = await created(account);
  const invoice = invoiceEvent({ subscription, created: at });
  undelivered(account, invoice);
  account.nowSeconds += 60;
  await sql`
    select public.billing_record_failed_event(
      p_provider => 'a', p_event_id => ${invoice.id},
      p_body => ${JSON.stringify(invoice)}, p_body_encoding => 'text',
      p_error_code => 'apply_failed', p_error => 'Failed', p_type => ${invoice.type}
    )`;
  await sql`select billing.resolve_failed_event(${invoice.id}, 'called', 'me')`;
  await using api = await serveStripeApi(account);
  assertEquals(await fixed(testContext(api.url)), []);
  const applied = await sql`select event_id from billing.processed_events`;
  assertEquals(applied.map(({ event_id }) => event_id), [id]);
});

Deno.test("reconcile fixes a record that is frozen: its marks are ahead of the clock", async () => {
  const { account, ids: [one = ""] } = await recorded(1);
  // A day of marks: quarters of microseconds.
  await sql`
    update billing.subscriptions set
      status = 'past_due',
      account_as_of = changed_as_of + ${86_400e6 * 4},
      changed_as_of = changed_as_of + 2 * ${86_400e6 * 4}::bigint,
      canceled_as_of = changed_as_of + 3 * ${86_400e6 * 4}::bigint
    where id = ${one}`;
  await using api = await serveStripeApi(account);
  assertEquals(await fixed(testContext(api.url)), []);
  const [after] = await sql`
    select * from public.billing_records where id = ${one}`;
  const { account_as_of, changed_as_of, canceled_as_of, status } = after!;
  assertEquals([canceled_as_of, status], [null, "active"]);
  assertEquals(account_as_of, changed_as_of);
  assert(changed_as_of.getTime() < account.nowSeconds * 1000);
});

Deno.test("reconcile compares twice, so an event on its way is no difference", async () => {
  const { account, ids: [one = ""] } = await recorded(1);
  account.change(one, { status: "past_due" });
  await using api = await serveStripeApi(account, {
    beforeAnswer: async (path) => {
      // The event arrives while reconcile lists Stripe's events.
      if (!path.startsWith("/v1/events")) return;
      await sql`
        update billing.subscriptions
        set status = 'past_due', provider_status = 'past_due' where id = ${one}`;
    },
  });
  const { code, differences } = await reconcile(api.url);
  assertEquals([code, differences], [0, []]);
});

Deno.test("reconcile completes an undelivered creation from its record, and skips it if UNMAPPED_SUBSCRIPTIONS is ignore", async () => {
  const account = createStripeAccount(1);
  const [shown] = account.subscriptions.values();
  assert(shown !== undefined);
  const creation = subscriptionEvent("customer.subscription.created", {
    subscription: shown.id,
    created: account.nowSeconds - 60,
  });
  undelivered(account, withoutAccount(creation));
  account.change(shown.id, withoutAccount(shown));
  account.subscriptions.set(shown.id, withoutAccount(shown));
  await using api = await serveStripeApi(account);
  const ignored = testContext(api.url, { unmappedSubscriptions: "ignore" });
  assertEquals(await found(ignored), []);
  const failing = testContext(api.url);
  assertEquals(kindsOf(await fixed(failing)), ["undelivered", "unmapped"]);
  account.subscriptions.set(shown.id, shown);
  assertEquals(await fixed(failing), []);
});

Deno.test("reconcile records subscriptions without an account ID of known customers and applies their events, also if it learns of them meanwhile, and if UNMAPPED_SUBSCRIPTIONS is ignore", async () => {
  const { account, ids: [one = ""] } = await recorded(1);
  const shown = account.subscriptions.get(one)!;
  const nameless = withoutAccount(shown);
  const customer = uniqueId("cus");
  const [known = "", older = "", newer = ""] = ["a", "b", "c"].map(uniqueId);
  account.change(known, { ...nameless, id: known });
  const [before, after] = [1_000_000_000, 1_800_000_000];
  account.change(older, { ...shown, id: older, customer, created: before });
  account.change(newer, { ...nameless, id: newer, customer, created: after });
  for (const subscription of [known, "sub_unknown"]) {
    const created = account.nowSeconds - 60;
    const invoice = { subscription, customer: shown.customer, created };
    undelivered(account, withoutAccount(invoiceEvent(invoice)));
  }
  await using api = await serveStripeApi(account);
  const failing = await found(testContext(api.url));
  assertEquals(namesOf(failing, "missing_here"), [known, older].sort());
  assertEquals(namesOf(failing, "unmapped"), [newer]);
  const ignoring = testContext(api.url, { unmappedSubscriptions: "ignore" });
  assertEquals(await fixed(ignoring), []);
  const owners = await sql`
    select account_id from billing.subscriptions
    union all select account_id from billing.notifications`;
  const accounts = owners.map(({ account_id }) => account_id);
  assertEquals(accounts, Array(5).fill("acc_0"));
});

Deno.test("reconcile creates one notification per invoice if NOTIFY_ONCE_PER_INVOICE is true", async () => {
  const account = createStripeAccount();
  const { subscription, created: at } = await created(account);
  const invoice = uniqueId("in");
  undelivered(
    account,
    invoiceEvent({ subscription, invoice, created: at + 60 }),
    invoiceEvent({ subscription, invoice, created: at + 120 }),
  );
  account.nowSeconds += 180;
  await using api = await serveStripeApi(account);
  const { code } = await runScript("reconcile", {
    args: ["--stripe-url", api.url, "--apply"],
    env: { NOTIFY_ONCE_PER_INVOICE: "true" },
  });
  assertEquals(code, 0);
  const notified = await sql`select invoice_id from billing.notifications`;
  assertEquals(notified.map(({ invoice_id }) => invoice_id), [invoice]);
});

Deno.test("reconcile compares the subscriptions that Stripe's list leaves out, and stops if Stripe has none of many", async () => {
  const { account, ids } = await recorded(2);
  await using api = await serveStripeApi(account, { unlisted: new Set(ids) });
  const context = testContext(api.url);
  assertEquals(await found(context), []);
  const [one = ""] = ids;
  const metadata = { accountId: "acc_moved" };
  account.change(one, { status: "past_due", metadata });
  assertEquals((await found(context)).map(differenceLine), [
    `differs        ${one}: account_id is acc_0 here, acc_moved at Stripe; status is active here, past_due at Stripe; provider_status is active here, past_due at Stripe`,
  ]);
  assertEquals(await fixed(context), []);

  const many = Array.from({ length: 130 }, (_, i) => `sub_${i}`);
  const other = createStripeAccount();
  await using otherApi = await serveStripeApi(other);
  const { stripe } = testContext(otherApi.url);
  assertEquals(await Array.fromAsync(stripe.someSubscriptions(many)), []);
  assertEquals(otherApi.requests.length, 100);
  const [shown] = account.subscriptions.values();
  other.change("sub_60", { ...shown, id: "sub_60" });
  const again = await Array.fromAsync(stripe.someSubscriptions(many));
  assertEquals([again.length, otherApi.requests.length], [1, 100 + 130]);
});

Deno.test("reconcile applies the events of a subscription that Stripe no longer has, the oldest first", async () => {
  const account = createStripeAccount();
  const creation = someCreation();
  account.happen(creation);
  // More than one call takes, of changes and of IDs.
  const type = "customer.subscription.updated";
  for (let i = 1; i <= 250; i++) {
    const created = creation.created + i;
    account.happen({ ...creation, id: uniqueId("evt"), type, created });
  }
  account.subscriptions.clear();
  await using api = await serveStripeApi(account);
  assertEquals(kindsOf(await fixed(testContext(api.url))), ["missing_there"]);
});
