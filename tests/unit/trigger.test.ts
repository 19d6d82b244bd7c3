import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import Stripe from "stripe";
import { UsageError } from "../../scripts/common/cli.ts";
import { EVENT_TYPES } from "../../scripts/events/templates.ts";
import {
  buildEvent,
  parseTriggerArguments,
} from "../../scripts/trigger/arguments.ts";
import type { SubscriptionRecord } from "../../scripts/trigger/stated_event.ts";
import { advice } from "../../scripts/trigger/advice.ts";
import * as result from "../../scripts/trigger/result.ts";
import {
  eventTypesOf,
  PROVIDERS,
} from "../../scripts/events/provider_events.ts";
import {
  type FormatName,
  FORMATS,
} from "../../supabase/functions/_shared/billing/events/formats.ts";
import { parseEvent } from "../../supabase/functions/_shared/billing/events/parse_event.ts";
import { LOCAL_SECRET_KEY } from "../../supabase/functions/_shared/billing/settings/local_stack.ts";
import { stripe } from "../../supabase/functions/_shared/billing/events/stripe.ts";
import { serveHere } from "../support/machine.ts";
import { runCommand } from "../support/run_script.ts";
import { typesOf } from "../../supabase/functions/_shared/billing/events/format.ts";

const CREATED = "customer.subscription.created";
const UPDATED = "customer.subscription.updated";
const INVOICE = "invoice.payment_failed";
const TRIAL = "customer.subscription.trial_will_end";

const parsed = (line: string) =>
  parseTriggerArguments(line.split(" ").filter(Boolean));
const OF_FILE = "--payload x";
const OF_TYPE = "customer.subscription.deleted --subscription sub_1";

function built(
  line: string,
  options: { created?: number; record?: SubscriptionRecord } = {},
) {
  const { source, format } = parsed(line);
  assert("type" in source);
  return buildEvent(source, { format, ...options });
}
const textOf = (...of: Parameters<typeof built>) =>
  JSON.stringify(built(...of));

Deno.test("advice() says what a type needs, and what to do about a failure", () => {
  const CREATE = / trigger customer\.subscription\.created, with the same/;
  for (
    const [line, status, errorCode, said] of [
      [CREATED, 200, "", /^$/],
      [TRIAL, 200, "", /^To notify.* trial_ending to NOTIFY/],
      ["invoice.paid", 200, "", /billing\.on_invoice_paid/],
      [OF_TYPE, 401, "", /^The receiver's log has the reason\.$/],
      [`${OF_FILE} --format paddle`, 401, "", /PROVIDER_A_FORMAT=paddle/],
      [OF_FILE, 422, "event_invalid", /^The event is in .* console$/s],
      [
        `${OF_FILE} --url http://127.0.0.1:9/functions/v1/billing-webhook`,
        422,
        "event_invalid",
        / console --project-url http:\/\/127\.0\.0\.1:9$/,
      ],
      [OF_TYPE, 422, "account_unknown", /^account_unknown: Add the account/],
      [OF_TYPE, 500, "apply_failed", /^apply_failed: Correct .* console$/s],
      [OF_TYPE, 500, "subscription_unknown", CREATE],
      [UPDATED, 500, "creation_pending", CREATE],
    ] as const
  ) {
    const lines = advice({ status, errorCode }, parsed(line));
    assertMatch(lines.join("\n"), said);
  }

  // Of each format, the creation that it names can be typed.
  for (const [format, { types }] of Object.entries(PROVIDERS)) {
    const sent = parsed(`${types.at(-2)} --format ${format}`);
    const failed = { status: 500, errorCode: "creation_pending" };
    const lines = advice(failed, sent).join("\n");
    const [, type] = / trigger ([^,]+),/.exec(lines)!;
    assertEquals(parsed(`${type} --format ${format}`).format, format);
  }

  assertEquals(
    advice({ status: 200, isClaimed: true }, parsed("charge.refunded")),
    [],
  );
});

Deno.test("parseTriggerArguments() takes a type with options, or a file", () => {
  const usual = {
    provider: "a",
    format: "stripe",
    url: undefined,
    print: false,
  } as const;
  const subscription = "sub_local_a";
  for (const type of EVENT_TYPES) {
    assertEquals(parsed(type), { ...usual, source: { type, subscription } });
  }

  const source = { payload: "event.json" };
  assertEquals(parsed("--payload event.json"), { ...usual, source });

  const given = "--account A --event E --status T --plan P --provider=b";
  assertEquals(parsed(`${given} ${TRIAL} --url https://a --print`), {
    ...usual,
    provider: "b",
    url: "https://a",
    print: true,
    source: {
      type: TRIAL,
      subscription: "sub_local_b",
      account: "A",
      event: "E",
      status: "T",
      plan: "P",
    },
  });
});

Deno.test("parseTriggerArguments() refuses what it does not take", () => {
  for (
    const [line, ...messages] of [
      [`${INVOICE} --provider z`, 'Unknown provider "z"'],
      [`${INVOICE} --format x`, 'Unknown format "x". Choose one of stripe'],
      [`${INVOICE} --format paddle`, "subscription.created"],
      [`${INVOICE} --url localhost:1`, "--url takes"],
      [`${INVOICE} sub_1`, "one event type, not 2 words"],
      [`${INVOICE} --payload x`, `leave out: ${INVOICE}`],
      ["--payload x --event evt_1", "leave out: --event"],
      ["--payload x --print", "leave out: --print"],
      [`${UPDATED} --quantity -1`, "--quantity needs a value"],
      [`${UPDATED} --quantity 1.5`, "--quantity takes a whole number"],
      [`${UPDATED} --cancel-at 3`, "--cancel-at takes a time"],
      [`${UPDATED} --cancel-at 2027-13-01`, "--cancel-at takes a time"],
      [`${INVOICE} --quantity 2`, `${INVOICE} takes no --quantity`],
      [`${INVOICE} --cancel-at=`, `${INVOICE} takes no --cancel-at`],
      [`${INVOICE} --status paid`, `${INVOICE} takes no --status`],
      [`${INVOICE} --plan P`, `${INVOICE} takes no --plan`],
      ["payment.failed --format dodo --status active", "takes no --status"],
      ["order_created --format lemon-squeezy --plan 7", "takes no --plan"],
      [CREATED.replace("ea", "ae"), `". Did you mean ${CREATED}?`],
      ["subscription.updated", `". Did you mean ${UPDATED}?`],
      ["paid", 'stripe event type "paid". Did you mean invoice.paid?'],
      ["created --format lemon-squeezy", "Did you mean subscription_created?"],
      ["unpaid_invoices", "Choose one of"],
      ["invoice.finalized", ...EVENT_TYPES.map((type) => `\n  ${type}`)],
      ["", ...EVENT_TYPES],
    ] as const
  ) {
    const refused = assertThrows(() => parsed(line), UsageError);
    for (const text of messages) assertStringIncludes(refused.message, text);
  }
});

type Options = Parameters<typeof result.sentEvent>[1];
const EVENT = {
  provider: "a",
  format: stripe,
  id: "evt_1&select=*",
  type: UPDATED,
  subscription: "sub_1",
  customer: "cus_1",
};
const OF_EVENT = "eq.a,eq.evt_1&select=*";
const LEDGER = `processed_events?${OF_EVENT}`;

/** Reads what became of an event; `rows` are by the question for them. */
async function resultOf(
  rows: Readonly<Record<string, object>>,
  { status = 200, wasApplied = false, type = EVENT.type, secretKey = "x" } = {},
) {
  await using server = serveHere(({ url, headers }) => {
    assertEquals(headers.get("accept-profile"), "public");
    const { pathname, searchParams } = new URL(url);
    searchParams.delete("select");
    const table = pathname.replace("/rest/v1/billing_", "");
    const row = rows[`${table}?${[...searchParams.values()]}`];
    const status = headers.get("apikey") === "x" ? 200 : 401;
    return Response.json(row ? [row] : [], { status });
  });
  const project = { projectUrl: server.url, secretKey };
  const event = { ...EVENT, type };
  return await result.readResult(project, event, { status, wasApplied });
}

Deno.test("readResult() names the outcome, and the row that the event is about", async () => {
  const record = { id: "sub_1", status: "active", canceled_at: null };
  const applied = {
    "subscriptions?eq.sub_1": record,
    [LEDGER]: { outcome: "applied" },
  };
  const stale = { ...applied, [LEDGER]: { outcome: "stale" } };
  const failure = `failed_events?${OF_EVENT},is.null`;
  const failed = { [failure]: { error_code: "x", error: "why" } };
  const why = ["  error_code  x", "  error       why"];
  const shown = ["  id      sub_1", "  status  active"];
  const checkout = { type: "checkout.session.completed" };
  const customer = { ...applied, "customers?eq.a,eq.cus_1": { id: 5 } };
  for (
    const [rows, options, head, ...row] of [
      [applied, {}, "applied. The row in billing.sub", ...shown],
      [stale, {}, "stale: newer events", ...shown],
      [applied, { wasApplied: true }, "duplicate: ", ...shown],
      [{}, {}, "ignored: nothing was stored."],
      [applied, { type: "invoice.paid" }, "applied: billing.on_invoice_paid"],
      [customer, checkout, "applied. The row in billing.cust", "  id  5"],
      [applied, { type: INVOICE }, "applied. There is no row in billing.notif"],
      [
        { ...applied, [`notifications?${OF_EVENT}`]: { id: 4 } },
        { type: TRIAL },
        "applied. The row in billing.no",
        "  id  4",
      ],
      [applied, { status: 401 }, "failed: nothing was stored."],
      [failed, { status: 422 }, "failed. The row in ", ...why],
    ] as const
  ) {
    const { lines, errorCode, isClaimed } = await resultOf(rows, options);

    assertEquals(lines[0]!.slice(0, head.length), head);
    assertEquals<unknown>(lines.slice(1), row);
    assertEquals(errorCode, rows === failed ? "x" : undefined);
    assertEquals(isClaimed, /^(?:app|dup|stale)/.test(head) || undefined);
  }
  const refused = () => resultOf({}, { secretKey: "another" });
  await assertRejects(refused, Error, "refuses the secret key");
});

Deno.test("projectOf() gives a key only to its own project", () => {
  const local = { dbUrl: "", apiUrl: "http://127.0.0.1:1" };
  const env = { SUPABASE_URL: "https://a.b/", SUPABASE_SECRET_KEY: "hosted" };
  const keyOf = (url: string) =>
    result.projectOf(url, { local, env })?.secretKey;

  assertEquals(keyOf("http://127.0.0.1:1/hook"), LOCAL_SECRET_KEY);
  assertEquals(keyOf("https://a.b/hook"), "hosted");
  assertEquals(keyOf("https://a.b.example/hook"), undefined);
  // Another local stack, such as one with --data.
  assertEquals(
    keyOf("http://127.0.0.1:2/functions/v1/billing-webhook"),
    LOCAL_SECRET_KEY,
  );
  assertEquals(keyOf("http://127.0.0.1:2/hook"), undefined);
});

Deno.test("sentEvent() finds what the receiver reads of a body", async () => {
  const { id, type, subscription, customer } = EVENT;
  const event = { id, type, data: { object: { id: subscription, customer } } };
  const sent = new TextEncoder().encode(JSON.stringify(event));
  const ofStripe = { provider: "a", format: "stripe", deliveryId: undefined };
  assertEquals(await result.sentEvent(sent, ofStripe as Options), EVENT);
  const ofPolar = { provider: "a", format: "polar", deliveryId: "m" };
  const filed = await result.sentEvent(Uint8Array.of(255), ofPolar as Options);
  assertEquals([filed.id, filed.type, filed.subscription], ["m", "", ""]);
});

Deno.test("buildEvent() fills in what the command line leaves out", () => {
  const event = textOf(`${INVOICE} --subscription sub_mine --event evt_1`);
  const ids = new Set(event.match(/\b(?:evt|sub|acc)_\w+/g));
  assertEquals(ids, new Set(["evt_1", "sub_mine", "acc_local"]));

  const payment = textOf(`${CREATED} --account=`);
  assertStringIncludes(payment, '"metadata":{}', "as of a payment link");
  const unpaid = textOf("checkout.session.completed --status unpaid");
  assertStringIncludes(unpaid, '"payment_status":"unpaid"');
  const order = textOf("order.paid --format polar --plan P9");
  assertStringIncludes(order, '"P9"');
  const transaction = "transaction.completed --format paddle --plan P9";
  assertStringIncludes(textOf(transaction), '"P9"');

  const creation = "subscription.created --format paddle";
  const { occurred_at } = built(creation, { created: 1_800_000_000 });
  assertEquals(occurred_at, "2027-01-15T08:00:00.000Z");
});

const END = "2026-12-24T00:00:00.000Z";
const CANCEL = "--cancel-at 2026-12-24";

const CHANGES = {
  "--status active": { provider_status: "active" },
  "--plan 8": { plan_id: "8" },
  "--quantity 5": { quantity: 5 },
  "--account team2": { account_id: "team2" },
  [CANCEL]: { cancel_at: END },
  "--cancel-at=": {},
};

Deno.test("an update of each format changes only what is asked", () => {
  for (const [name, format] of Object.entries(FORMATS)) {
    const prefix = name === "lemon-squeezy" ? "ls_" : "";
    const record = {
      account_id: "team1",
      customer_id: `${prefix}cus_1`,
      plan_id: "7",
      provider_status: "past_due",
      quantity: 3,
      current_period_end: END,
      cancel_at: null,
      trial_end: "2026-11-01T00:00:00.000Z",
      ...(name === "stripe" && { paused: "keep_as_draft", livemode: true }),
    };
    const type = eventTypesOf(name as FormatName)
      .find((type) => type.endsWith("updated"))!;
    for (const [line, changes] of Object.entries(CHANGES)) {
      const event = built(`${type} --format ${name} ${line}`, {
        record: record as SubscriptionRecord,
        created: 1_795_000_000,
      });
      const read = parseEvent(JSON.stringify(event), {
        format,
        ...(format.idOf && { id: "msg_1" }),
        nowSeconds: 1_795_000_000,
        toleranceSeconds: 300,
      });
      assert(!read.isIgnored);

      const { report, previous } = read.event;
      const { account_id, ...wanted } = { ...record, ...changes };
      assertStringIncludes(JSON.stringify(event), `"${account_id}"`);
      // Lemon Squeezy has one status for what is canceled.
      if (line === CANCEL && prefix) wanted.provider_status = "active";
      const names = Object.keys(wanted) as (keyof typeof wanted)[];
      const found = names.map((name) => [name, report[name]]);
      assertEquals(Object.fromEntries(found), wanted, `${name} ${line}`);

      if (name === "stripe") {
        const { items: _, ...replaced } = previous ?? {};
        const { account_id: __, ...asked } = changes as { account_id?: string };
        assertEquals(Object.keys(replaced), Object.keys(asked));
      }
    }
  }
});

Deno.test("buildEvent() gives a trial its end, and later events the same plan", () => {
  const trial = "--status trialing";
  for (const type of [CREATED, UPDATED]) {
    const event = textOf(`${type} ${trial}`, { created: 1_795_000_000 });
    assertStringIncludes(event, '"trial_end":1796209600,');
    assertStringIncludes(event, '"current_period_end":1796209600');
  }
  const paddle = textOf(`subscription.created --format paddle ${trial}`);
  assertMatch(paddle, /"trial_dates":{"starts_at"/);

  for (const type of EVENT_TYPES) {
    assertEquals(textOf(type).includes("Yearly"), type === UPDATED, type);
  }
});

Deno.test("buildEvent() makes every type, without IDs of its template", () => {
  for (const type of EVENT_TYPES) {
    const event = built(`${type} --event evt_x --subscription sub_$&x`);
    const version = typesOf(stripe).includes(type)
      ? "2024-06-20"
      : "2026-10-28.endive";
    assertEquals([event["type"], event["api_version"]], [type, version]);
    const text = JSON.stringify(event);
    const own = /(?:evt|sub|acc)_1|Invoice0+3|cus_Ex|Payment0/;
    assertEquals([own.test(text), text.includes("cus_$&x")], [false, true]);
  }
});

const SECRET = "whsec_of_this_test";

/** Runs `trigger`, whatever supabase/functions/.env has. */
function trigger(line: string) {
  return runCommand("trigger", line.split(" "), {
    PROVIDER_A_SIGNING_SECRET: SECRET,
    PROVIDER_A_SIGNATURE_SCHEME: "stripe",
    PROVIDER_A_SIGNATURE_HEADER: "stripe-signature",
  });
}

Deno.test("trigger sends what verifies, and prints the answer alone", async () => {
  const events: Stripe.Event[] = [];
  await using receiver = serveHere(async (request) => {
    const signature = request.headers.get("stripe-signature") ?? "";
    const { webhooks } = Stripe;
    const body = await request.text();
    events.push(await webhooks.constructEventAsync(body, signature, SECRET));
    return new Response("\x1b[2J\u202e\r\nnext");
  });

  const line = `${CREATED} --url ${receiver.url}/hook`;
  const { out: printed } = await trigger(`${line} --print`);
  assertEquals(JSON.parse(printed).data.object.id, "sub_local_a");

  const { code, out, err } = await trigger(line);
  // A terminal executes control characters.
  assertEquals([code, out], [0, "200 \\u001b[2J\\u202e\nnext\n"]);
  assertEquals(events.map(({ type }) => type), [CREATED]);
  const { id, created } = events[0]!;
  assert(Math.abs(Date.now() / 1000 - created) < 60);
  assertStringIncludes(err, `${CREATED} ${id} about sub_local_a, signed as`);
});

Deno.test("trigger sends a file as it is, and follows no redirect", async () => {
  const file = await Deno.makeTempFile();
  const bytes = Uint8Array.of(0x7b, 0xff, 0x00, 0x7d);
  await Deno.writeFile(file, bytes);
  const received: unknown[] = [];
  const receiver = serveHere(async (request) => {
    received.push(new URL(request.url).pathname, await request.bytes());
    return new Response(null, { status: 302, headers: { location: "/other" } });
  });

  const url = `${receiver.url}/hook`;
  const line = `--payload ${file} --url ${url}`;
  const result = await trigger(line);
  assertEquals([result.code, result.out], [1, "302\n"]);
  assertEquals(received, ["/hook", bytes]);

  await receiver[Symbol.asyncDispose]();
  const { code, out, err } = await trigger(line);
  assertEquals([code, out], [1, ""]);
  const reason = `Cannot reach ${url}: is the local stack running?`;
  assertStringIncludes(err, reason);
  await Deno.remove(file);
});
