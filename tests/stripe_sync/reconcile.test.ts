/**
 * `deno task reconcile` after some events never arrived.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { Context } from "../../scripts/stripe_sync/context.ts";
import { findDifferences } from "../../scripts/stripe_sync/find_differences.ts";
import { differenceLine } from "../../scripts/stripe_sync/differences.ts";
import { fix as applyFixes } from "../../scripts/reconcile.ts";
import { withoutAccount } from "../support/without_account.ts";
import { invoiceEvent } from "../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import type { StripeEvent } from "../../scripts/events/event_types.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { eventBody } from "../support/histories/event_body.ts";
import type { HistoryEvent } from "../support/histories/history.ts";
import { freshSeed } from "../support/random.ts";
import { startReceiver } from "../support/receiver.ts";
import { deliver } from "../support/send.ts";
import { connect } from "../support/tables.ts";
import { assertRecords } from "./end_state.ts";
import { randomEvents } from "./random_events.ts";
import {
  createStripeAccount,
  shownSubscription,
  type StripeAccount,
} from "./stripe_account.ts";
import { serveStripeApi } from "./stripe_api.ts";
import { runScript } from "../support/run_script.ts";
import { publishRunningStack } from "../../scripts/common/running_stack.ts";
import { setting } from "../support/test_environment.ts";
import { testContext } from "./test_context.ts";

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

interface Difference {
  readonly kind: string;
  readonly event?: string;
  readonly subscription?: string | null;
}

/** Runs it with `--json`. */
async function reconcile(url: string, ...args: string[]) {
  const { code, out, err } = await runScript("reconcile", {
    args: ["--stripe-url", url, "--json", ...args],
  });
  assert(out !== "", err);
  const document = JSON.parse(out) as Record<
    "found" | "differences",
    Difference[]
  >;
  return { code, ...document };
}

/** Fixes what is found, and returns what still differs. */
async function fix(context: Context): Promise<readonly Difference[]> {
  await applyFixes(await findDifferences(context), context);
  return (await findDifferences(context)).differences;
}

function nowSeconds(): number {
  return Math.floor(Date.now() / 1000);
}

/** A creation of an active subscription, so that the record is as at Stripe. */
function creationOf(prefix: string): HistoryEvent {
  const [creation] = randomEvents(1, { seed: 1, prefix: uniqueId(prefix) });
  assert(creation !== undefined);
  return { ...creation, values: { ...creation.values, status: "active" } };
}

/** An event as Stripe's list has it. */
function asListed(event: object): StripeEvent {
  return JSON.parse(JSON.stringify(event));
}

function named(
  differences: Difference[],
  name: "event" | "subscription",
): string[] {
  return differences.map((difference) => String(difference[name])).sort();
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
  const withheld = events.filter((_, i) => i % 10 === 9);
  const bodies = new Map(events.map((event) => [event.id, eventBody(event)]));
  async function send(id: string) {
    const { status } = await deliver(receiver.url, bodies.get(id) ?? {});
    if (status === 200) account.delivered.add(id);
  }
  const sent = events.filter((event) => !withheld.includes(event));
  for (const { id } of sent) await send(id);
  const failed = sent.filter(({ id }) => !account.delivered.has(id));
  account.nowSeconds += 60;
  await using api = await serveStripeApi(account);

  const dry = await reconcile(api.url);
  console.log(
    `${withheld.length} withheld, ${failed.length} failed, ${dry.differences.length} differences, seed ${seed}`,
  );
  assertEquals(dry.code, 1);
  const undelivered = dry.differences.filter(({ kind }) =>
    kind === "undelivered"
  );
  assertEquals(
    named(undelivered, "event"),
    withheld.map(({ id }) => id).sort(),
  );
  const open = dry.differences.filter(({ kind }) => kind === "failed");
  assertEquals(named(open, "event"), failed.map(({ id }) => id).sort());
  const [before] =
    await sql`select count(*)::int from billing.processed_events`;
  assertEquals(
    before?.["count"],
    account.delivered.size,
    "Nothing was applied",
  );

  const fixed = await reconcile(api.url, "--apply");
  assertEquals([fixed.code, fixed.differences], [0, []]);
  assertEquals(named(fixed.found, "event"), named(dry.differences, "event"));
  const missing = dry.differences.filter(({ kind }) => kind === "missing_here");
  const corrected = new Set(named(missing, "subscription"));
  await assertRecords(events, sql, {
    isPastDueKnown: (id) => !corrected.has(id),
  });
  const [notified] = await sql`select count(*)::int from billing.notifications`;
  assertEquals(
    notified?.["count"],
    events.filter(({ type }) => type === "invoice.payment_failed").length,
  );

  const again = await runScript("reconcile", {
    args: ["--stripe-url", api.url],
  });
  assertEquals([again.code, again.out], [0, "No differences.\n"]);
});

/** Imports two subscriptions, and returns their IDs. */
async function twoRecorded(
  account: StripeAccount,
): Promise<[string, string]> {
  const ids = [uniqueId("sub"), uniqueId("sub")] as const;
  for (const [i, subscription] of ids.entries()) {
    account.subscriptions.set(
      subscription,
      shownSubscription({
        type: "customer.subscription.updated",
        subscription,
        account: `acc_${i}`,
        values: { status: "active", plan: "price_1", periodEnd: 1_800_000_000 },
      }, 1_700_000_000 + i),
    );
  }
  await using api = await serveStripeApi(account);
  const { code, err } = await runScript("import", {
    args: ["--stripe-url", api.url],
  });
  assertEquals(code, 0, err);
  return [...ids];
}

function changed(account: StripeAccount, id: string, values: object) {
  const shown = account.subscriptions.get(id);
  assert(shown !== undefined);
  account.subscriptions.set(id, { ...shown, ...values });
}

Deno.test("reconcile lists each kind of difference, and deletes nothing", async () => {
  const account = createStripeAccount();
  account.nowSeconds = 1_795_000_000;
  const [one, other] = await twoRecorded(account);
  account.nowSeconds += 3_600;
  changed(account, one, { status: "canceled" });
  account.subscriptions.delete(other);
  const template = account.subscriptions.get(one);
  assert(template !== undefined);
  const customer = uniqueId("cus");
  const nobodys = { ...withoutAccount(template), id: "sub_nobodys", customer };
  account.subscriptions.set("sub_nobodys", nobodys);
  account.subscriptions.set("sub_new", { ...template, id: "sub_new" });
  account.subscriptions.set("sub_odd", {
    ...template,
    id: "sub_odd",
    items: { data: [] as never },
  });
  await sql`
    insert into billing.failed_events (provider, event_id, type, payload_encoding, error_code, error)
    values ('a', 'evt_old', 'customer.subscription.updated', 'json', 'apply_failed', 'x')`;
  await using api = await serveStripeApi(account);

  const dry = await runScript("reconcile", {
    args: ["--stripe-url", api.url],
  });
  assertEquals(dry.code, 1);
  for (
    const line of [
      `missing here   sub_new, account acc_0`,
      `no account     sub_nobodys, customer ${customer}`,
      `unreadable     sub_odd: data.object.items.data`,
      `missing there  ${other}`,
      `differs        ${one}: status is active here, canceled at Stripe; canceled_at is null here, set at Stripe`,
      `failed         evt_old, customer.subscription.updated, subscription unknown: apply_failed`,
      "6 differences. --apply fixes what it can, and deletes nothing.",
    ]
  ) assertStringIncludes(dry.out, line);

  const left = await fix(testContext(api.url));
  assertEquals(
    left.map(({ kind }) => kind).sort(),
    ["failed", "missing_there", "unmapped", "unreadable"],
  );
  const rows = await sql`
    select id, status, canceled_at is not null as canceled
    from billing.subscriptions order by id collate "C"`;
  assertEquals(
    rows.map((row) => ({ ...row })),
    [
      { id: one, status: "canceled", canceled: true },
      { id: other, status: "active", canceled: false },
      { id: "sub_new", status: "canceled", canceled: true },
    ].sort((a, b) => a.id < b.id ? -1 : 1),
  );

  await fix(testContext(api.url, { accountFrom: "customer" }));
  const [row] = await sql`
    select account_id from billing.subscriptions where id = 'sub_nobodys'`;
  assertEquals(row?.["account_id"], customer);
});

Deno.test("reconcile ignores an event that was resolved by hand", async () => {
  const account = createStripeAccount();
  const creation = creationOf("hand");
  account.happen(creation);
  await deliver(receiver.url, eventBody(creation));
  account.delivered.add(creation.id);
  const { id, subscription } = creation;
  const invoice = invoiceEvent({ subscription, created: creation.created });
  account.events.set(invoice.id, asListed(invoice));
  account.nowSeconds += 60;
  await sql`
    select public.billing_record_failed_event(
      p_provider => 'a', p_event_id => ${invoice.id},
      p_body => ${JSON.stringify(invoice)}, p_body_encoding => 'text',
      p_error_code => 'apply_failed', p_error => 'Failed', p_type => ${invoice.type}
    )`;
  await sql`select billing.resolve_failed_event(${invoice.id}, 'called', 'me')`;
  await using api = await serveStripeApi(account);
  assertEquals(await fix(testContext(api.url)), []);
  const applied = await sql`select event_id from billing.processed_events`;
  assertEquals(applied.map(({ event_id }) => event_id), [id]);
});

Deno.test("reconcile refuses an event from the future, as the receiver does, and fixes the record", async () => {
  const account = createStripeAccount();
  account.nowSeconds = 1_795_000_000;
  const [one] = await twoRecorded(account);
  account.nowSeconds += 3_600;
  changed(account, one, { status: "past_due" });
  const event = subscriptionEvent("customer.subscription.updated", {
    subscription: one,
    status: "unpaid",
    created: Math.floor(Date.now() / 1000) + 60 * 86_400,
  });
  account.events.set(event.id, asListed(event));
  await using api = await serveStripeApi(account);
  const left = await fix(testContext(api.url));
  assertEquals(left.map(({ kind }) => kind), ["undelivered"]);
  const [row] = await sql`
    select status from billing.subscriptions where id = ${one}`;
  assertEquals(row?.["status"], "past_due");
});

const MONTH = 30 * 86_400;

const KINDS = { created: "creation", updated: "update", deleted: "deletion" };

/** An event of a subscription that is dated a month ahead gets in. */
async function letInAhead(
  type: "created" | "updated" | "deleted",
  subscription: string,
): Promise<void> {
  const ahead = new Date((nowSeconds() + MONTH) * 1000).toISOString();
  await sql`
    select public.billing_apply_events(${
    sql.json([{
      place: 1,
      provider: "a",
      event_id: uniqueId("evt"),
      type: `customer.subscription.${type}`,
      kind: KINDS[type],
      occurred_at: ahead,
      subscription_id: subscription,
      account_id: type === "created" ? "acc_ahead" : null,
      report: {
        plan_id: "price_ahead",
        provider_status: "unpaid",
        current_period_end: ahead,
      },
      previous: {},
    }])
  })`;
}

async function statusOf(subscription: string): Promise<unknown> {
  const [row] = await sql`
    select status from billing.subscriptions where id = ${subscription}`;
  return row?.["status"];
}

for (const type of ["created", "updated", "deleted"] as const) {
  Deno.test(`reconcile fixes a record that a future "${type}" event has frozen`, async () => {
    const account = createStripeAccount();
    account.nowSeconds = nowSeconds() - 60;
    const [one, other] = await twoRecorded(account);
    await letInAhead(type, one);
    await letInAhead(type, other);
    account.nowSeconds = nowSeconds();
    changed(account, one, { status: "canceled" });
    const deletion = subscriptionEvent("customer.subscription.deleted", {
      subscription: one,
      created: account.nowSeconds - 30,
    });
    const { status } = await deliver(receiver.url, deletion);
    assertEquals(status, 200);
    await using api = await serveStripeApi(account);

    const context = testContext(api.url);
    const { differences } = await findDifferences(context);
    assertEquals(differences.map(({ kind }) => kind), ["differs", "differs"]);
    assertEquals(await fix(context), []);
    assertEquals(
      [await statusOf(one), await statusOf(other)],
      ["canceled", "active"],
    );

    // Events count again.
    for (const subscription of [one, other]) {
      const update = subscriptionEvent("customer.subscription.updated", {
        subscription,
        status: "past_due",
        created: nowSeconds(),
      });
      await deliver(receiver.url, update);
      assertEquals(await statusOf(subscription), "past_due");
    }
  });
}

/** What a day adds to a mark. */
const DAY_OF_MARKS = 86_400 * 1_000_000 * 4;

Deno.test("reconcile fixes a record that is frozen, even if its values are right", async () => {
  const account = createStripeAccount();
  account.nowSeconds = nowSeconds() - 60;
  const [one] = await twoRecorded(account);
  await sql`
    update billing.subscriptions set
      account_as_of = changed_as_of + ${DAY_OF_MARKS},
      changed_as_of = changed_as_of + 2 * ${DAY_OF_MARKS}::bigint,
      canceled_as_of = changed_as_of + 3 * ${DAY_OF_MARKS}::bigint
    where id = ${one}`;
  const [before] = await sql`
    select * from public.billing_records where id = ${one}`;
  account.nowSeconds = nowSeconds();
  await using api = await serveStripeApi(account);
  const context = testContext(api.url);
  const [difference] = (await findDifferences(context)).differences;
  assertEquals(
    difference?.kind === "differs" &&
      difference.fields.map(({ field }) => field),
    ["account_as_of", "changed_as_of", "canceled_as_of"],
  );
  assertEquals(await fix(context), []);
  const [after] = await sql`
    select * from public.billing_records where id = ${one}`;
  const corrected = after?.["changed_as_of"];
  assertEquals({ ...after }, {
    ...before,
    account_as_of: corrected,
    changed_as_of: corrected,
    changed_by_update: true,
    canceled_as_of: null,
  });
  assert(corrected.getTime() < account.nowSeconds * 1000);
});

Deno.test("reconcile moves no record to another account because of --account-from", async () => {
  const account = createStripeAccount();
  account.nowSeconds = 1_795_000_000;
  const [one] = await twoRecorded(account);
  account.nowSeconds += 3_600;
  changed(account, one, { metadata: {} });
  await using api = await serveStripeApi(account);
  const context = testContext(api.url, { accountFrom: "customer" });
  assertEquals((await findDifferences(context)).differences, []);
});

Deno.test("reconcile compares twice, so an event on its way is no difference", async () => {
  const account = createStripeAccount();
  account.nowSeconds = 1_795_000_000;
  const [one] = await twoRecorded(account);
  account.nowSeconds += 3_600;
  changed(account, one, { status: "past_due" });
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
  const account = createStripeAccount();
  const creation = creationOf("nobody");
  account.happen(creation);
  account.nowSeconds += 60;
  const event = account.events.get(creation.id);
  assert(event !== undefined);
  account.events.set(creation.id, withoutAccount(event));
  const shown = account.subscriptions.get(creation.subscription);
  assert(shown !== undefined);
  account.subscriptions.set(creation.subscription, withoutAccount(shown));
  await using api = await serveStripeApi(account);

  const ignored = testContext(api.url, { unmappedSubscriptions: "ignore" });
  assertEquals((await findDifferences(ignored)).differences, []);

  const failing = testContext(api.url);
  assertEquals((await fix(failing)).map(({ kind }) => kind), [
    "unmapped",
    "undelivered",
  ]);

  account.subscriptions.set(creation.subscription, shown);
  assertEquals(await fix(failing), []);
});

Deno.test("reconcile records a subscription to which an update brought the account ID", async () => {
  const account = createStripeAccount();
  const creation = { ...creationOf("late"), namesAccount: false };
  const update: HistoryEvent = {
    ...creation,
    id: uniqueId("evt"),
    type: "customer.subscription.updated",
    created: creation.created + 60,
    namesAccount: true,
  };
  // Stripe goes on sending each until the answer is 200.
  for (const [event, expected] of [[creation, 422], [update, 500]] as const) {
    account.happen(event);
    const { status } = await deliver(receiver.url, eventBody(event));
    assertEquals(status, expected);
  }
  account.nowSeconds += 60;
  await using api = await serveStripeApi(account);
  const context = testContext(api.url);
  assertEquals(
    (await findDifferences(context)).differences.map(({ kind }) => kind),
    ["missing_here", "failed", "failed"],
  );
  assertEquals(await fix(context), []);
  const [row] = await sql`
    select account_id, provider_status from billing.subscriptions
    where id = ${creation.subscription}`;
  assertEquals({ ...row }, {
    account_id: creation.account,
    provider_status: "active",
  });
});

Deno.test("reconcile records subscriptions without an account ID of known customers, also if it learns of them meanwhile", async () => {
  const account = createStripeAccount();
  account.nowSeconds = 1_795_000_000;
  const [one] = await twoRecorded(account);
  account.nowSeconds += 3_600;
  const template = account.subscriptions.get(one);
  assert(template !== undefined);
  const nameless = withoutAccount(template);
  const customer = uniqueId("cus");
  const ids = ["known", "older", "newer"].map(uniqueId);
  const [known = "", older = "", newer = ""] = ids;
  for (
    const shown of [
      { ...nameless, id: known },
      { ...template, id: older, customer, created: 1_000_000_000 },
      { ...nameless, id: newer, customer, created: 1_800_000_000 },
    ]
  ) account.subscriptions.set(shown.id, shown);
  await using api = await serveStripeApi(account);
  const context = testContext(api.url);
  const { differences } = await findDifferences(context);
  assertEquals(
    differences.map(({ kind, ...rest }) => [
      kind,
      "subscription" in rest && rest.subscription,
    ]),
    [["unmapped", newer], ["missing_here", known], ["missing_here", older]],
  );
  assertEquals(await fix(context), []);
  const rows = await sql`
    select account_id from billing.subscriptions where id = any (${ids})`;
  assertEquals(
    rows.map(({ account_id }) => account_id),
    Array(3).fill("acc_0"),
  );

  // Of a customer with two accounts it could be either's.
  const [ofOther, nobodys] = [uniqueId("sub"), uniqueId("sub")];
  const metadata = { accountId: "acc_other" };
  account.subscriptions.set(ofOther, { ...template, id: ofOther, metadata });
  account.subscriptions.set(nobodys, { ...nameless, id: nobodys });
  assertEquals<unknown>(await fix(context), [{
    kind: "unmapped",
    subscription: nobodys,
    customer: template.customer,
  }]);
});

Deno.test("reconcile applies the missed events of a known customer's subscription, also if UNMAPPED_SUBSCRIPTIONS is ignore", async () => {
  const account = createStripeAccount();
  account.nowSeconds = 1_795_000_000;
  const [one] = await twoRecorded(account);
  account.nowSeconds += 3_600;
  const template = account.subscriptions.get(one);
  assert(template !== undefined);
  const subscription = uniqueId("known");
  account.subscriptions.set(subscription, {
    ...withoutAccount(template),
    id: subscription,
  });
  const invoice = withoutAccount(asListed(invoiceEvent({
    subscription,
    customer: template.customer,
    created: account.nowSeconds - 60,
  })));
  account.events.set(invoice.id, invoice);
  await using api = await serveStripeApi(account);
  const context = testContext(api.url, { unmappedSubscriptions: "ignore" });
  assertEquals(await fix(context), []);
  const notified = await sql`select account_id from billing.notifications`;
  assertEquals(notified.map(({ account_id }) => account_id), ["acc_0"]);
});

for (const [setting, count] of [["true", 1], ["false", 2]] as const) {
  Deno.test(`reconcile creates ${count} of two notifications of an invoice if NOTIFY_ONCE_PER_INVOICE is ${setting}`, async () => {
    const account = createStripeAccount();
    const creation = creationOf("once");
    account.happen(creation);
    await deliver(receiver.url, eventBody(creation));
    account.delivered.add(creation.id);
    const { subscription } = creation;
    const invoice = uniqueId("in");
    for (const created of [creation.created + 60, creation.created + 120]) {
      const event = invoiceEvent({ subscription, invoice, created });
      account.events.set(event.id, asListed(event));
    }
    account.nowSeconds += 180;
    await using api = await serveStripeApi(account);
    const { code } = await runScript("reconcile", {
      args: ["--stripe-url", api.url, "--apply"],
      env: { NOTIFY_ONCE_PER_INVOICE: setting },
    });
    assertEquals(code, 0);
    const notified = await sql`select invoice_id from billing.notifications`;
    assertEquals(
      notified.map(({ invoice_id }) => invoice_id),
      Array(count).fill(invoice),
    );
  });
}

Deno.test("reconcile sets past_due_since to the time of the update, if that was missed", async () => {
  const account = createStripeAccount();
  const creation = creationOf("due");
  account.happen(creation);
  await deliver(receiver.url, eventBody(creation));
  account.delivered.add(creation.id);
  const update: HistoryEvent = {
    ...creation,
    id: uniqueId("evt"),
    type: "customer.subscription.updated",
    created: creation.created + 60,
    values: { ...creation.values, status: "past_due" },
    previous: { status: "active" },
  };
  account.happen(update);
  account.nowSeconds += 86_400;
  await using api = await serveStripeApi(account);
  assertEquals(await fix(testContext(api.url)), []);
  const [row] = await sql`
    select extract(epoch from past_due_since)::int as since
    from billing.subscriptions where id = ${creation.subscription}`;
  assertEquals(row?.["since"], update.created);
});

Deno.test("reconcile fixes the records even if Stripe no longer has the events", async () => {
  const events = randomEvents(EVENTS, {
    seed: freshSeed(),
    prefix: uniqueId("gone"),
  });
  const account = createStripeAccount();
  events.forEach(account.happen);
  for (const [i, event] of events.entries()) {
    if (i % 3 !== 2) await deliver(receiver.url, eventBody(event));
  }
  account.events.clear();
  account.nowSeconds += 60;
  await using api = await serveStripeApi(account);
  const left = await fix(testContext(api.url));
  assertEquals(left.filter(({ kind }) => kind !== "failed"), []);
  await assertRecords(events, sql, { updatesAreLost: true });
});

Deno.test("reconcile finds many subscriptions that Stripe's list leaves out", async () => {
  const account = createStripeAccount();
  account.nowSeconds = 1_795_000_000;
  const ids = Array.from({ length: 130 }, (_, i) => uniqueId(`sub_${i}`));
  for (const subscription of ids) {
    const values = {
      status: "active",
      plan: "price_1",
      periodEnd: 1_800_000_000,
    };
    const type = "customer.subscription.updated";
    account.subscriptions.set(
      subscription,
      shownSubscription(
        { type, subscription, account: "acc_1", values },
        1_700_000_000,
      ),
    );
  }
  await using api = await serveStripeApi(account);
  assertEquals(await fix(testContext(api.url)), []);
  await using clocks = await serveStripeApi(account, {
    unlisted: new Set(ids),
  });
  assertEquals(
    (await findDifferences(testContext(clocks.url))).differences,
    [],
  );
});

Deno.test("reconcile stops to ask for subscriptions if Stripe has none of many", async () => {
  await using api = await serveStripeApi(createStripeAccount());
  const { stripe } = testContext(api.url);
  const ids = Array.from({ length: 130 }, (_, i) => `sub_${i}`);
  assertEquals(await Array.fromAsync(stripe.someSubscriptions(ids)), []);
  assertEquals(api.requests.length, 100);
});

Deno.test("reconcile compares subscriptions that Stripe's list leaves out", async () => {
  const account = createStripeAccount();
  account.nowSeconds = 1_795_000_000;
  const [one, other] = await twoRecorded(account);
  account.nowSeconds += 3_600;
  const metadata = { accountId: "acc_moved" };
  for (const id of [one, other]) {
    changed(account, id, { status: "past_due", metadata });
  }
  await using api = await serveStripeApi(account, {
    unlisted: new Set([one, other]),
  });
  const context = testContext(api.url);
  const { differences } = await findDifferences(context);
  const expected = [one, other].map((subscription, i) => ({
    kind: "differs" as const,
    subscription,
    fields: [
      { field: "account_id", here: `acc_${i}`, there: "acc_moved" },
      { field: "status", here: "active", there: "past_due" },
      { field: "provider_status", here: "active", there: "past_due" },
    ],
  }));
  assertEquals(
    differences.map(differenceLine).sort(),
    expected.map(differenceLine).sort(),
  );
  assertEquals(await fix(context), []);
});
