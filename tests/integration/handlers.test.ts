/**
 * docs/handlers.md: its handlers on a whole stack, with duplicates, failures and
 * retries.
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { paymentEvent, uniqueId } from "../../scripts/events/templates.ts";
import { handlersPage } from "../support/docs.ts";
import { deliver, post } from "../support/send.ts";
import { startOwnStack } from "../support/stacks.ts";

const FAILED = "payment_intent.payment_failed";
const COMPLETED = "checkout.session.completed";
const PAID_LATER = "checkout.session.async_payment_succeeded";
const REFUNDED = "charge.refunded";
const INVOICE = "invoice.paid";
const SUCCEEDED = "payment_intent.succeeded";
const FINALIZED = "invoice.finalized";

const started = await startOwnStack({
  env: {
    HANDLE_EVENT_TYPES: [
      FAILED,
      COMPLETED,
      PAID_LATER,
      REFUNDED,
      INVOICE,
      SUCCEEDED,
      FINALIZED,
    ].join(", "),
    ACCOUNT_FROM_CHECKOUT: "true",
  },
});
const { stack, sql } = started;
Deno.test.afterAll(() => started[Symbol.asyncDispose]());
const webhook = `${stack.urls.webhookProcess}/billing-webhook`;

await sql`
  insert into billing.customers (provider, customer_id, account_id)
  values ('a', 'cus_listed', 'acc_listed')`;
const PLANS = `insert into public.plan_credits
  values ('price_pro', 30), ('price_year', 360), ('price_extra', 5)`;
const page = handlersPage();
for (const text of [...page.handlers, PLANS]) {
  await sql.unsafe(text).simple();
}

function event(type: string, object: object) {
  const created = Math.floor(Date.now() / 1000);
  return { id: uniqueId("evt"), type, created, data: { object } };
}
type Event = ReturnType<typeof event>;

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

/** Returns the event that so much of a session's 19.00 was refunded by now. */
const refund = (payment_intent: string, amount_refunded: number) =>
  event(REFUNDED, { payment_intent, amount: 1900, amount_refunded });

const invoice = (billing_reason: string, more: object) =>
  event(INVOICE, { id: uniqueId("in"), billing_reason, ...more });

/** A line of an invoice; without the rest, of one unit for 19.00. */
interface Line {
  readonly price: string;
  readonly quantity?: number;
  readonly amount?: number;
  readonly proration?: boolean;
}

/** Returns a line as Stripe sends it; `isBasil` for an API version since 2025-03-31. */
function line(
  { price, quantity = 1, amount = 1900, proration = false }: Line,
  isBasil: boolean,
): object {
  const common = { amount, quantity };
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

const PRO: Line = { price: "price_pro" };
const EXTRA: Line = { price: "price_extra" };
const OTHER: Line = { price: "price_other" };
const YEAR: Line = { price: "price_year", amount: 18000 };
const prorated = (changed: Line, amount: number): Line => ({
  ...changed,
  amount,
  proration: true,
});

// With a coupon of 100 %, the amount of a line stays.
const PAID: [reason: string, lines: Line[], credits?: number][] = [
  ["subscription_create", [PRO], 30],
  ["subscription_cycle", [{ ...PRO, quantity: 3, amount: 5700 }], 90],
  ["subscription_cycle", [EXTRA, { ...PRO, quantity: 2 }, OTHER], 65],
  ["subscription_cycle", [prorated(PRO, -950), PRO], 30],
  ["quote_accept", [PRO], 30],
  // To a yearly price, and back: the period begins anew.
  ["subscription_update", [prorated(PRO, -950), YEAR], 360],
  ["subscription_update", [prorated(YEAR, -9000), PRO], 30],
  // More seats, or another price, within the period.
  ["subscription_update", [
    prorated(PRO, -1900),
    prorated({ ...PRO, quantity: 2 }, 3800),
  ]],
  ["subscription_update", [prorated(PRO, -950), prorated(EXTRA, 500)]],
  // A trial, or a price of 0.
  ["subscription_create", [{ ...PRO, amount: 0 }]],
  ["subscription_cycle", [OTHER]],
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

const setup = session({ accountId: "acc_other" }, { mode: "setup" });
const subscribed = session({ accountId: "acc_other" }, {
  mode: "subscription",
});

const completed = [
  twice,
  twice,
  half,
  whole,
  link,
  blank,
  unsaid,
  other,
  free,
  { ...late, payment_status: "unpaid" },
  setup,
  subscribed,
];
const checkouts = [
  ...completed.map((it) => event(COMPLETED, it)),
  event(PAID_LATER, late),
];
const ofPeriods = [basil, { subscription }].flatMap((of) =>
  PAID.map(([reason, lines, credits]) => {
    const data = lines.map((each) => line(each, of === basil));
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
  const lines = { data: [{ ...line(PRO, false), ...of }] };
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
const deals = [
  paymentEvent(SUCCEEDED, { account: "acc_deal" }).data.object,
  { id: uniqueId("pi"), metadata: {} },
].map((payment) => event(SUCCEEDED, payment));
const url = "https://invoice.stripe.com/i/1";
const listed = [
  {
    parent: { subscription_details: { metadata: { accountId: "acc_listed" } } },
  },
  { subscription_details: { metadata: { accountId: "acc_listed" } } },
  { customer: "cus_listed" },
  {
    subscription_details: { metadata: { accountId: " " } },
    customer: "cus_listed",
  },
].map((of) =>
  event(FINALIZED, { id: uniqueId("in"), hosted_invoice_url: url, ...of })
);
const others = [
  ...deals,
  ...listed,
  ...invoices.filter(({ credits }) => credits === undefined),
  invoice("manual", { lines: { data: [line(OTHER, true)] } }),
  invoice("manual", {}),
];
// The refunds before the purchases.
const all = [refunds, checkouts, periods, others, failed].flat();

Deno.test("the page's own test passes, and leaves nothing", async () => {
  await sql.unsafe(page.test).simple();
  assertEquals([...await sql`select from public.credits`], []);
});

Deno.test("each event has its effect exactly once", async (test) => {
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
    const purchases = [
      ...checkouts,
      ...refunds,
      ...invoices,
      ...deals,
      ...listed,
    ];
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

  const grants = await sql`
    select s.account_id, s.plan_id, s.cancel_at
    from billing.grants g join billing.subscriptions s on s.id = g.subscription_id`;
  assertEquals(grants.map((row) => Object.values(row)), [
    ["acc_deal", "price_pro", null],
  ]);
  const shown = await sql`select account_id, url from public.invoices`;
  assertEquals(
    shown.map((row) => Object.values(row)),
    listed.map(() => ["acc_listed", url]),
  );

  const given = await sql`select source, amount::int from public.credits`;
  const amounts = new Map(given.map(({ source, amount }) => [source, amount]));
  for (const { credits, data: { object } } of invoices) {
    const { id } = object as { id: string };
    assertEquals(amounts.get(id), credits, JSON.stringify(object));
  }
});

Deno.test("an invoice whose event lacks lines fails instead of giving too little", async () => {
  const lines = { data: [line(EXTRA, true)], has_more: true };
  const cut = invoice("subscription_cycle", { ...basil, lines });
  assertEquals((await deliver(webhook, cut)).status, 500);
  const [row] = await sql`
    select error from billing.failed_events where event_id = ${cut.id}`;
  assertStringIncludes(row!["error"], "the event lacks lines of in_");

  const whole = { data: [line(OTHER, true)], has_more: true };
  const single = invoice("manual", { lines: whole });
  assertEquals((await deliver(webhook, single)).status, 200);
});
