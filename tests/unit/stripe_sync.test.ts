import { assert, assertEquals, assertThrows } from "@std/assert";
import Stripe from "stripe";
import { UsageError } from "../../scripts/common/cli.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { API_VERSIONS } from "../../scripts/events/templates.ts";
import { parseReconcileArguments } from "../../scripts/reconcile.ts";
import { compare } from "../../scripts/stripe_sync/compare.ts";
import type { Wait } from "../../scripts/stripe_sync/retry.ts";
import { callStripe } from "../../scripts/stripe_sync/stripe_source.ts";
import {
  openTables,
  type SubscriptionRecord,
} from "../../scripts/stripe_sync/tables.ts";
import type { BillingEvent } from "../../supabase/functions/_shared/billing/database/apply_events.ts";
import type { PlanItem } from "../../supabase/functions/_shared/billing/events/event_settings.ts";
import type { DatabaseClient } from "../../supabase/functions/_shared/billing/database/client.ts";
import { LOCAL_SECRET_KEY } from "../../supabase/functions/_shared/billing/settings/local_stack.ts";

const TEST = "STRIPE_API_KEY=sk_test_1";
const LIVE = "STRIPE_API_KEY=rk_live_1";
const SECRET = "SUPABASE_SECRET_KEY=sb_secret_1";
const REMOTE = "SUPABASE_URL=https://abc.supabase.co";

function parsed(line: string) {
  const words = line.split(" ").filter(Boolean);
  const variables = words.filter((word) => /^[A-Z]/.test(word));
  const env = Object.fromEntries(variables.map((word) => word.split("=")));
  return parseReconcileArguments(words.slice(variables.length), {
    env,
    warn() {},
  });
}

const DEFAULTS = {
  apiKey: "sk_test_1",
  mode: "test",
  stripeUrl: undefined,
  projectUrl: "http://127.0.0.1:54321",
  secretKey: LOCAL_SECRET_KEY,
  provider: "a",
  accountFrom: undefined,
  unmappedSubscriptions: "fail",
  oncePerInvoice: false,
  notify: new Set(["payment_failed"]),
};
const OTHER = "http://127.0.0.1:7";

Deno.test("options and variables name the account and the project", () => {
  for (
    const [line, values] of [
      [TEST, DEFAULTS],
      [`${LIVE} --mode live`, { apiKey: "rk_live_1", mode: "live" }],
      [`${TEST} ${SECRET} ${REMOTE}/ --mode test`, {
        projectUrl: "https://abc.supabase.co",
        secretKey: "sb_secret_1",
      }],
      [`${TEST} --stripe-url ${OTHER}`, { stripeUrl: OTHER }],
      [`${TEST} PROVIDER_A_FORMAT=paddle --provider b --account-from team`, {
        provider: "b",
        accountFrom: "team",
      }],
      [`${TEST} PLAN_ITEM=licensed`, { planItem: "licensed" }],
      // reconcile changes nothing without --apply.
      [`${TEST} --json`, { apply: false, json: true }],
      [`${TEST} --apply`, { apply: true, json: false }],
    ] as const
  ) {
    const found = parsed(line);
    assertEquals<unknown>({ ...found, ...values }, found);
  }
});

Deno.test("what does not fit is refused, and no key repeated", () => {
  for (
    const [line, says] of [
      ["", "STRIPE_API_KEY must begin"],
      ["STRIPE_API_KEY=sk_1 --mode test", "must begin with sk_test_"],
      [LIVE, "local. If that is intended, add --mode live"],
      [`${TEST} ${SECRET} ${REMOTE}`, "add --mode test"],
      [`${LIVE} ${SECRET} ${REMOTE}`, "add --mode live"],
      [`${TEST} --mode live`, "is a test key, but live mode is wanted"],
      [`${TEST} ${REMOTE} --mode test`, "needs SUPABASE_SECRET_KEY"],
      // Stripe's key is sent to Stripe or this machine only.
      [`${TEST} --stripe-url http://localhost.example.com:1`, "--stripe-url"],
      [`${TEST} UNMAPPED_SUBSCRIPTIONS=yes`, "fail or ignore"],
      // Of the chosen provider, before anything about a key of Stripe's.
      [
        "PROVIDER_A_FORMAT=paddle",
        "is for Stripe only, but PROVIDER_A_FORMAT is",
      ],
      [`${TEST} PROVIDER_B_FORMAT=polar --provider b`, "B_FORMAT is polar"],
      [`${TEST} PROVIDER_A_FORMAT=padle`, "PROVIDER_A_FORMAT must be"],
    ] as const
  ) {
    const { message } = assertThrows(() => parsed(line), UsageError, says);
    for (const [, secret = ""] of line.matchAll(/_KEY=(\S+)/g)) {
      assert(!message.includes(secret), message);
    }
  }
});

const ASKED_AT = Date.parse("2026-11-21T10:00:00Z") / 1000;
const PERIOD_END = "2027-01-15T08:00:00.000Z";
const ITEMS = [{
  // As jsonb orders them.
  item_id: "si_ExampleItem0001",
  price_id: "price_1",
  quantity: 1,
  product_id: "prod_ExampleProduct1",
  usage_type: "licensed",
  current_period_end: PERIOD_END,
}];
const WHOLE =
  `${PERIOD_END} si_ExampleItem0001 price_1 prod_ExampleProduct1 1 licensed`;
const RECORD: SubscriptionRecord = {
  id: "sub_1",
  provider: "a",
  account_id: "acc_1",
  status: "active",
  plan_id: "price_1",
  current_period_end: "2027-01-15T08:00:00+00:00",
  canceled_at: null,
  provider_status: "active",
  customer_id: "cus_1",
  quantity: 1,
  cancel_at: null,
  trial_end: null,
  paused: null,
  paused_until: null,
  livemode: false,
  items: ITEMS,
  items_complete: true,
  past_due_since: null,
  account_as_of: "2026-11-01T10:00:00+00:00",
  changed_as_of: "2026-11-21T10:05:00+00:00",
  changed_by_update: true,
  canceled_as_of: null,
};
const CANCELED = { status: "canceled", canceled_at: "2026-01-01" };
const CREATED = { provider_status: "trialing", changed_by_update: false };
const AHEAD = "2026-11-21T10:05:01+00:00";
const TOO_LATE = "2026-11-21T10:05:01.000Z, at most 2026-11-21T10:05:00.000Z";

function compared(
  changes: object,
  record: Partial<SubscriptionRecord> | undefined,
  { apiVersion = API_VERSIONS[0]!, customersAccount, ...options } = {} as {
    apiVersion?: typeof API_VERSIONS[number];
    accountFrom?: string;
    customersAccount?: string;
    askedAtSeconds?: number;
    planItem?: PlanItem;
  },
) {
  const { data: { object } } = subscriptionEvent(
    "customer.subscription.updated",
    {
      subscription: "sub_1",
      account: "acc_1",
      plan: "price_1",
      periodEnd: 1_800_000_000,
      status: "active",
      apiVersion,
    },
  );
  return compare({ ...object, ...changes } as unknown as Stripe.Subscription, {
    provider: "a",
    accountFrom: undefined,
    planItem: "first",
    tables: {
      accountOfCustomer: () => Promise.resolve(customersAccount),
    },
    askedAtSeconds: ASKED_AT,
    record: record && { ...RECORD, ...record },
    ...options,
  });
}

type Case = [
  at: object,
  here: Partial<SubscriptionRecord> | undefined,
  differences: string[],
  corrections?: string,
];

const ENDED = { status: "canceled" };
const ENDS = "status: active, canceled";
const CREATES = "created,updated";

const CASES: Case[] = [
  [{}, {}, [], ""],
  [ENDED, CANCELED, [], ""],
  // It is not known what an update reported last.
  [ENDED, { ...CANCELED, provider_status: null }, [], ""],
  // It came back: the time of the cancellation is the receiver's own.
  [{}, { canceled_at: "2026-01-01" }, [], ""],
  // A record as its creation left it is active.
  [{ status: "trialing" }, CREATED, [], ""],
  [{}, CREATED, ["provider_status: trialing, active"]],
  [{ status: "past_due" }, CREATED, [
    "status: active, past_due",
    "provider_status: trialing, past_due",
  ]],
  [{ status: "trialing" }, { ...CREATED, changed_by_update: true }, [
    "status: active, trialing",
  ]],
  [{}, { provider: "b", plan_id: "price_2" }, [
    "provider: b, a",
    "plan_id: price_2, price_1",
  ]],
  [{}, { current_period_end: "2027-01-15T09:00:00+00:00" }, [
    `current_period_end: 2027-01-15T09:00:00.000Z, ${PERIOD_END}`,
  ]],
  [{}, { account_id: "acc_2" }, ["account_id: acc_2, acc_1"], CREATES],
  [ENDED, {}, [ENDS, "canceled_at: null, set"], "updated,deleted"],
  [ENDED, { canceled_at: "2026-01-01" }, [ENDS]],
  // A column that no event has filled yet, and one that Stripe left out.
  [{ customer: { id: "cus_2" } }, { quantity: null, livemode: null }, [
    "customer_id: cus_1, cus_2",
    "quantity: null, 1",
    "livemode: null, false",
  ]],
  [
    {
      items: {
        data: [{ price: { id: "price_1" }, current_period_end: 1_800_000_000 }],
      },
    },
    {},
    [
      "quantity: 1, null",
      `items: ${WHOLE}, ${PERIOD_END} - price_1 - - -`,
    ],
  ],
  [{}, { items: null }, [
    `items: null, ${WHOLE}`,
  ]],
  // Text of the form of a time, but none.
  [{}, { plan_id: "2027-99-15T08:00:00Z" }, [
    "plan_id: 2027-99-15T08:00:00Z, price_1",
  ]],
  // Over five minutes ahead, the mark freezes the record.
  [{}, { account_as_of: AHEAD }, [`account_as_of: ${TOO_LATE}`]],
  [{}, { changed_as_of: AHEAD }, [`changed_as_of: ${TOO_LATE}`]],
  [{}, { canceled_as_of: AHEAD }, [`canceled_as_of: ${TOO_LATE}`]],
  [{ items: { data: [] } }, undefined, ["unreadable"], ""],
  [{}, undefined, ["missing_here"], CREATES],
  [ENDED, undefined, ["missing_here"], "created,updated,deleted"],
];

Deno.test("compare() names and corrects what differs, in any API version", async () => {
  for (const apiVersion of API_VERSIONS) {
    for (const [changes, here, differences, types = "updated"] of CASES) {
      const { difference, corrections } = await compared(changes, here, {
        apiVersion,
      });

      const fields = difference?.fields?.map(({ field, here, there }) =>
        `${field}: ${here}, ${there}`
      ) ?? (difference ? [difference.kind] : []);
      assertEquals<unknown>(fields, differences);
      const found = corrections.map(({ provider, type }) =>
        `${provider} ${type.split(".").pop()}`
      );
      const expected = types.split(",").filter(Boolean);
      assertEquals(
        found,
        expected.map((type) =>
          `a ${type}`
        ),
      );
    }
  }
});

Deno.test("compare() takes the plan that the receiver takes", async () => {
  const { data: { object } } = subscriptionEvent(
    "customer.subscription.updated",
    {
      plan: "price_api",
      usageType: "metered",
      addOns: [{ price: "price_1", quantity: 1 }],
    },
  );
  const { items, current_period_end } = object;
  const plans = { first: "price_api", licensed: "price_1" } as const;
  for (const planItem of ["first", "licensed"] as const) {
    const changes = { items, current_period_end };
    const { corrections } = await compared(changes, undefined, { planItem });
    const found = corrections.map(({ report }) => report.plan_id);
    assertEquals(found, Array(2).fill(plans[planItem]));
  }
});

Deno.test("compare() dates corrections before Stripe was asked, with stable IDs", async () => {
  const corrected = async (changes = {}, askedAtSeconds = ASKED_AT) =>
    (await compared(changes, undefined, { askedAtSeconds })).corrections;
  for (const { occurred_at, provider, report } of await corrected()) {
    assertEquals(occurred_at, "2026-11-21T09:59:54.500Z");
    assertEquals([provider, report.plan_id], ["a", "price_1"]);
  }

  const ids = (await Promise.all([
    corrected(),
    corrected(),
    corrected({ status: "paused" }),
    corrected({}, ASKED_AT + 1),
  ])).flat().map(({ event_id }) => event_id);
  assertEquals(new Set(ids).size, 6);
  assert(ids.every((id) => /^import_[0-9a-f]{64}$/.test(id)));
});

Deno.test("compare() takes the account from metadata, record, source or customer", async () => {
  const customersAccount = "acc_c";
  for (
    const [metadata, accountFrom, account, sent = account] of [
      [{ accountId: "acc_1", team: "team_1" }, "customer", "acc_1"],
      [{ accountId: "acc_1", team: "team_1" }, "team", "acc_1"],
      [{ accountId: " ", team: "team_1" }, "team", "team_1"],
      [{ team: "team_1" }, "customer", "cus_1"],
      // The database decides by itself.
      [{ accountId: " ", team: "team_1" }, undefined, "acc_c", null],
      [{ team: "" }, "team", "acc_c", null],
      // Keys of the metadata only.
      [{}, "constructor", "acc_c", null],
    ] as const
  ) {
    const changes = { metadata, customer: "cus_1" };
    const options = { customersAccount, ...(accountFrom && { accountFrom }) };

    const made = await compared(changes, undefined, options);
    assertEquals(made.difference?.account, account);
    assertEquals(made.corrections[0]?.account_id, sent);

    const here = metadata.accountId?.trim() ? {} : { account_id: "acc_9" };
    const { difference } = await compared(changes, here, options);
    assertEquals(difference, undefined);
  }
});

type Answer = () => Response | Promise<Response>;

const DATE = Date.parse("2026-11-21T10:00:30Z") / 1000;

async function called<T>(call: (wait: Wait) => Promise<T>) {
  const waits: number[] = [];
  const wait = (ms: number) => Promise.resolve(void waits.push(ms));
  const [result] = await Promise.allSettled([call(wait)]);
  return { result, waits };
}

function asked(answers: readonly Answer[]) {
  const left = [...answers];
  const stripe = new Stripe("sk_test_unit", {
    maxNetworkRetries: 0,
    timeout: 500,
    httpClient: Stripe.createFetchHttpClient((_url, init) => {
      const aborted = Promise.withResolvers<never>();
      init?.signal?.addEventListener(
        "abort",
        () => aborted.reject(new DOMException("", "AbortError")),
      );
      return Promise.race([left.shift()!(), aborted.promise]);
    }),
  });
  return called((wait) =>
    callStripe(() => stripe.subscriptions.retrieve("sub_1"), wait)
  );
}

function fine(): Response {
  return Response.json({ id: "sub_1" }, {
    headers: { date: new Date(DATE * 1000).toUTCString() },
  });
}

function fault(status: number, retryAfter?: string): Answer {
  const headers = retryAfter ? { "retry-after": retryAfter } : {};
  return () =>
    Response.json({ error: { message: "No." } }, { status, headers });
}

const CUT_OFF = new ReadableStream({
  start: (controller) => controller.error(new Error("cut off")),
});

Deno.test("callStripe() waits as Retry-After says, and repeats what failed", async () => {
  for (
    const [answers, expected] of [
      [[
        fault(429, "3"),
        fault(429, "0"),
        fault(429, "86400"),
        fault(429, "Fri, 31 Dec 1999 23:59:59 GMT"),
        fault(429),
      ], [3_000, 0, 60_000, 4_000, 8_000]],
      [[
        fault(500),
        () => new Response("<html>", { status: 502 }),
        () => Promise.reject(new TypeError("connection refused")),
        () => new Response(CUT_OFF),
        () => new Promise<never>(() => {}),
        fault(503),
      ], [500, 1_000, 2_000, 4_000, 8_000, 16_000]],
    ] as const
  ) {
    const { result, waits } = await asked([...answers, fine]);
    assertEquals([result.status, ...waits], ["fulfilled", ...expected]);
  }
});

Deno.test("callStripe() gives up after seven tries, or a refusal", async () => {
  for (const status of [503, 400, 401, 403, 404]) {
    const { result, waits } = await asked(Array(7).fill(fault(status)));
    assert(result.status === "rejected");
    assertEquals(result.reason.message, "No.");
    assertEquals(waits.length, status === 503 ? 6 : 0);
  }
});

Deno.test("callStripe() returns Stripe's time before the call, and needs one", async () => {
  const { result } = await asked([fine]);

  assert(result.status === "fulfilled");
  assertEquals(result.value.askedAtSeconds, DATE - 1);

  const without = await asked([() => Response.json({ id: "sub_1" })]);
  assert(without.result.status === "rejected");
  assert(`${without.result.reason}`.includes("no Date header"));
});

Deno.test("apply() repeats the call while the database is unavailable or a record locked", async () => {
  const failed = { place: 1, outcome: "failed" };
  const answers = [
    { data: null, error: null, status: 503 },
    { data: [{ ...failed, error_code: "55P03" }], error: null },
    { data: [{ ...failed, error_code: "23514" }], error: null },
  ];
  const rpc: unknown = () => ({
    abortSignal: () => Promise.resolve(answers.shift()),
  });
  const database = { rpc } as DatabaseClient;

  const options = { database, provider: "a" } as const;
  const { result, waits } = await called((wait) =>
    openTables(options, wait).apply([[{} as BillingEvent]])
  );
  assert(result.status === "fulfilled");
  assertEquals([result.value.failed.length, answers, waits], [1, [], [
    500,
    1_000,
  ]]);
});
