/**
 * docs/handlers.md: its handlers on a whole stack, with duplicates, failures and
 * retries.
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { handlersPage } from "../support/docs.ts";
import { deliver, post } from "../support/send.ts";
import { startOwnStack } from "../support/stacks.ts";

const FAILED = "payment_intent.payment_failed";
const COMPLETED = "checkout.session.completed";
const PAID_LATER = "checkout.session.async_payment_succeeded";
const REFUNDED = "charge.refunded";
const INVOICE = "invoice.paid";

const own = await startOwnStack({
  env: {
    HANDLE_EVENT_TYPES: [FAILED, COMPLETED, PAID_LATER, REFUNDED, INVOICE].join(
      ", ",
    ),
    ACCOUNT_FROM_CHECKOUT: "true",
  },
});
const { stack, sql } = own;
Deno.test.afterAll(() => own[Symbol.asyncDispose]());
const webhook = `${stack.urls.webhookProcess}/billing-webhook`;

const PLANS = `insert into public.plan_credits
  values ('price_pro', 30), ('price_year', 360), ('price_extra', 5)`;
for (const text of [...handlersPage().handlers, PLANS]) {
  await sql.unsafe(text).simple();
}

function event(type: string, object: object) {
  const created = Math.floor(Date.now() / 1000);
  return { id: uniqueId("evt"), type, created, data: { object } };
}
type Event = ReturnType<typeof event>;

/** The session of a purchase of 100 credits for 19.00. */
function session(metadata: object, more: object = {}) {
  return {
    id: uniqueId("cs"),
    mode: "payment",
    payment_status: "paid",
    payment_intent: uniqueId("pi"),
    metadata: { credits: "100", ...metadata },
    ...more,
  };
}

/** What was refunded of a session's 19.00 so far. */
const refund = (payment_intent: string, amount_refunded: number) =>
  event(REFUNDED, { payment_intent, amount: 1900, amount_refunded });

const invoice = (billing_reason: string, more: object) =>
  event(INVOICE, { id: uniqueId("in"), billing_reason, ...more });

/** A line of an invoice: `price_pro`, or `3 price_pro 5700 proration`. */
function line(text: string, isBasil: boolean): object {
  const [, count = "1", price, amount = "1900", isItem] =
    /^(?:(\d+) )?(\w+)(?: (-?\d+))?( proration)?$/.exec(text)!;
  const common = { amount: Number(amount), quantity: Number(count) };
  const proration = isItem !== undefined;
  if (!isBasil) {
    const type = proration ? "invoiceitem" : "subscription";
    return { ...common, type, proration, price: { id: price } };
  }
  const type = proration ? "invoice_item_details" : "subscription_item_details";
  return {
    ...common,
    pricing: { price_details: { price } },
    parent: { type, [type]: { proration } },
  };
}

/** Of a paid invoice: its reason, its lines, and the credits that it gives. */
const PERIODS: [reason: string, lines: string[], credits?: number][] = [
  ["subscription_create", ["price_pro"], 30],
  ["subscription_cycle", ["3 price_pro 5700"], 90],
  // With a coupon of 100 %, the amount of the line stays.
  ["subscription_cycle", ["price_pro 1900"], 30],
  ["subscription_cycle", ["price_extra", "2 price_pro", "price_other"], 65],
  ["subscription_cycle", ["price_pro -950 proration", "price_pro"], 30],
  ["quote_accept", ["price_pro"], 30],
  // To a yearly price, and back: the period begins anew.
  [
    "subscription_update",
    ["price_pro -950 proration", "price_year 18000"],
    360,
  ],
  ["subscription_update", ["price_year -9000 proration", "price_pro"], 30],
  // More seats, or another price, within the period; a trial, or a price of 0.
  ["subscription_update", [
    "price_pro -1900 proration",
    "2 price_pro 3800 proration",
  ]],
  ["subscription_update", [
    "price_pro -950 proration",
    "price_extra 500 proration",
  ]],
  ["subscription_create", ["price_pro 0"]],
  ["subscription_cycle", ["price_other"]],
];

async function deliverAll(events: readonly Event[]) {
  const statuses: Record<number, number> = {};
  const left = events.values();
  await Promise.all(Array.from({ length: 4 }, async () => {
    for (const event of left) {
      const { status } = await deliver(webhook, event);
      statuses[status] = (statuses[status] ?? 0) + 1;
    }
  }));
  return statuses;
}

async function wakeWorker(): Promise<number> {
  const headers = { apikey: stack.keys.secret };
  return (await post(stack.urls.worker, { headers })).status;
}

const subscription = uniqueId("sub");
const basil = { parent: { subscription_details: { subscription } } };
const twice = session({ accountId: "acc_twice" });
const late = session({ accountId: "acc_late" });
const half = session({ accountId: "acc_half" });
const whole = session({ accountId: "acc_whole" });
const link = session({}, { client_reference_id: "acc_link" });
const blank = session({ accountId: " \t" }, {
  client_reference_id: "acc_blank",
});
const unsaid = session({ accountId: "acc_unsaid" }, { payment_status: null });
const other = session({ accountId: "acc_other", credits: undefined });
// With a coupon of 100 %, which no second event follows.
const free = session({ accountId: "acc_free" }, {
  payment_status: "no_payment_required",
  payment_intent: null,
});

const checkouts = [
  ...[twice, twice, half, whole, link, blank, unsaid, other, free]
    .map((it) => event(COMPLETED, it)),
  event(COMPLETED, { ...late, payment_status: "unpaid" }),
  event(PAID_LATER, late),
  ...["setup", "subscription"].map((mode) =>
    event(COMPLETED, session({ accountId: "acc_other" }, { mode }))
  ),
];
const ofPeriods = [basil, { subscription }].flatMap((of, i) =>
  PERIODS.map(([reason, lines, credits]) => {
    const data = lines.map((text) => line(text, i === 0));
    const paid = invoice(reason, { ...of, lines: { data, has_more: false } });
    return { ...paid, credits };
  })
);
/** Invoices that name their subscription in a line, or none. */
const alone = [
  { subscription },
  { parent: { subscription_item_details: { subscription } } },
  { parent: { invoice_item_details: { subscription } } },
  { subscription: null },
].map((of) => {
  const lines = { data: [{ ...line("price_pro", false), ...of }] };
  const credits = of.subscription === null ? undefined : 30;
  return { ...invoice("manual", { lines, parent: null }), credits };
});
const invoices = [...ofPeriods, ...alone];
const periods = invoices.filter(({ credits }) => credits !== undefined);
const refunds = [
  refund(half.payment_intent, 950),
  refund(whole.payment_intent, 1900),
  refund(whole.payment_intent, 500),
  refund(uniqueId("pi"), 1),
];
const failed = [1, 2].map((amount) => event(FAILED, { amount }));
const others = [
  ...invoices.filter(({ credits }) => credits === undefined),
  invoice("manual", { lines: { data: [line("price_other", true)] } }),
  invoice("manual", {}),
];
// The refunds before the purchases.
const all = [refunds, checkouts, periods, others, failed].flat();

Deno.test("whatever fails, is retried and delivered again, each event has its effect exactly once", async (test) => {
  await test.step("an invoice fails that overtakes its subscription, and so do purchases without their table", async () => {
    await sql`alter table public.credits rename to credits_away`;
    const failing = checkouts.length + periods.length;
    assertEquals(await deliverAll(all), {
      200: all.length - failing,
      500: failing,
    });
    const failures = await sql`
      select distinct error from billing.open_failures
      where error_code = 'apply_failed' order by error`;
    const missing = 'raised 42P01: relation "public.credits" does not exist';
    assertEquals(failures.map(({ error }) => error), [
      `billing.on_checkout_session_async_payment_succeeded ${missing}`,
      `billing.on_checkout_session_completed ${missing}`,
      `billing.on_invoice_paid raised P0001: ${subscription} is not recorded yet`,
    ]);
    await sql`alter table public.credits_away rename to credits`;
    const creation = subscriptionEvent("customer.subscription.created", {
      subscription,
      account: "acc_monthly",
      plan: "price_pro",
    });
    assertEquals((await deliver(webhook, creation)).status, 200);
  });

  await test.step("the worker runs a handler again", async () => {
    await sql`select billing.retry_failed_events(of_type => ${INVOICE})`;
    assertEquals(await wakeWorker(), 200);
    const resolved = await sql`
      select resolution from billing.failed_events where type = ${INVOICE}`;
    assertEquals(
      resolved.map(({ resolution }) => resolution),
      periods.map(() => "applied"),
    );
  });

  await test.step("copies and retries come at the same time", async () => {
    await sql`select billing.retry_failed_events()`;
    const copies = all.flatMap((event) => [event, event, event]);
    assertEquals(
      await Promise.all([deliverAll(copies), wakeWorker()]),
      [{ 200: copies.length }, 200],
    );
    assertEquals([...await sql`select error from billing.open_failures`], []);
  });

  await test.step("and all come again, long after the ledger has forgotten them", async () => {
    await sql`delete from billing.processed_events`;
    const purchases = [...checkouts, ...refunds, ...invoices];
    assertEquals(await deliverAll(purchases), { 200: purchases.length });
    // What was refunded first may come last.
    const first = refund(whole.payment_intent, 500);
    assertEquals((await deliver(webhook, first)).status, 200);
  });

  const rows = await sql`select from public.failed_payments`;
  assertEquals(rows.length, failed.length);
  const credits = await sql`
    select account_id, credits::int from public.credit_balances order by 1`;
  assertEquals(credits.map((row) => Object.values(row).join(" ")), [
    "acc_blank 100",
    "acc_free 100",
    "acc_half 50",
    "acc_late 100",
    "acc_link 100",
    `acc_monthly ${periods.reduce((sum, { credits }) => sum + credits!, 0)}`,
    "acc_twice 100",
    "acc_unsaid 100",
    "acc_whole 0",
  ]);
  const given = await sql`select source, amount::int from public.credits`;
  const amounts = new Map(given.map(({ source, amount }) => [source, amount]));
  for (const { credits, data: { object } } of invoices) {
    const { id } = object as { id: string };
    assertEquals(amounts.get(id), credits, JSON.stringify(object));
  }
});

Deno.test("an invoice whose event lacks some of its lines fails instead of giving too little", async () => {
  const lines = { data: [line("price_extra", true)], has_more: true };
  const cut = invoice("subscription_cycle", { ...basil, lines });
  assertEquals((await deliver(webhook, cut)).status, 500);
  const whole = { data: [line("price_other", true)], has_more: true };
  const single = invoice("manual", { lines: whole });
  assertEquals((await deliver(webhook, single)).status, 200);
  const [row] = await sql`
    select error from billing.failed_events where event_id = ${cut.id}`;
  assertStringIncludes(row!["error"], "the event lacks lines of in_");
});
