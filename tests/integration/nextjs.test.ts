/**
 * docs/nextjs on a stack, against a stand-in for Stripe's API: what its pages show and
 * where its forms lead. nextjs_stand_ins.ts has what it imports.
 */
import {
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import * as checkout from "../../docs/nextjs/app/billing/checkout/route.ts";
import BillingPage from "../../docs/nextjs/app/billing/page.tsx";
import * as portal from "../../docs/nextjs/app/billing/portal/route.ts";
import { readAccount, takeOne } from "../../docs/nextjs/lib/billing.ts";
import {
  subscriptionEvent,
  type SubscriptionEventType,
} from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/templates.ts";
import { localKeys, signToken } from "../../scripts/local_stack/keys.ts";
import { applySql, DENIED, RIGHTS, sqlOf } from "../support/app_page.ts";
import { startReceiver } from "../support/functions.ts";
import { eventually } from "../support/hang_limit.ts";
import { serveHere } from "../support/machine.ts";
import { deliver } from "../support/send.ts";
import { connect } from "../support/tables.ts";
import { setting } from "../support/test_environment.ts";

const SITE_URL = "https://app.example.com";
const SESSION = "https://stripe.example/session";
const PLANS = sqlOf("insert into billing.plan_features");

const sql = connect();
const receiver = await startReceiver();
const asked: Record<string, string>[] = [];
const stripe = serveHere(async (request) => {
  const { pathname } = new URL(request.url);
  const fields = new URLSearchParams(await request.text());
  asked.push({ pathname, ...Object.fromEntries(fields) });
  return Response.json({ url: SESSION });
});

const env = {
  NEXT_PUBLIC_SUPABASE_URL: setting("TEST_API_URL"),
  NEXT_PUBLIC_SUPABASE_PUBLISHABLE_KEY: (await localKeys()).publishable,
  SITE_URL,
  STRIPE_SECRET_KEY: "sk_test_1",
  TEST_STRIPE_URL: stripe.url,
};
for (const [name, value] of Object.entries(env)) Deno.env.set(name, value);

Deno.test.afterAll(async () => {
  await stripe[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
  await sql.end();
});

function applyPage() {
  const [rows, grace] = [sqlOf('"Users read'), sqlOf("interval '3 days'")];
  // Twice, as after a change.
  return applySql(sql, RIGHTS, RIGHTS, rows, grace, PLANS);
}

async function signIn(): Promise<string> {
  const sub = crypto.randomUUID();
  const exp = Math.floor(Date.now() / 1000) + 600;
  const token = await signToken({ role: "authenticated", sub, exp });
  Deno.env.set("LOCAL_TOKEN", token);
  return sub;
}

function grant(account: string, plan: string) {
  return sql`select billing.grant_plan(${account}, ${plan}, reason => 'a test')`;
}

async function html(
  paid?: string,
  searchParams = Promise.resolve(paid === undefined ? {} : { paid }),
): Promise<string> {
  return `${await BillingPage({ searchParams }).toString()}`;
}

async function follow(route: Promise<Response>): Promise<string | number> {
  const { status, headers } = await route;
  return status === 303 ? headers.get("location")! : status;
}

function buy(price: string) {
  const body = new URLSearchParams({ price });
  const request = new Request(SITE_URL, { method: "POST", body });
  return follow(checkout.POST(request));
}

Deno.test("without a user, all leads to the sign-in", async () => {
  Deno.env.delete("LOCAL_TOKEN");
  await assertRejects(() => html(), Error, "NEXT_REDIRECT /login");
  assertEquals(await buy("price_pro"), "/login");
  assertEquals(await follow(portal.POST()), "/login");
  // So `next build`, which has no request, does not look for one.
  const none = Promise.reject(new Error("no request"));
  await assertRejects(() => html("", none), Error, "no request");
});

Deno.test("a user subscribes, and sees each state", async () => {
  await using _ = await applyPage();
  const accountId = await signIn();
  const subscription = uniqueId("sub");
  let created = Math.floor(Date.now() / 1000) - 60;
  async function happens(type: SubscriptionEventType, options: object = {}) {
    const event = subscriptionEvent(type, {
      subscription,
      account: accountId,
      plan: "price_pro",
      created: created++,
      trialEnd: Date.UTC(2035, 0, 31) / 1000,
      ...options,
    });
    assertEquals((await deliver(receiver.url, event)).status, 200);
  }

  assertMatch(await html(), /Free.*Choose a plan.*"price_pro">Pro</);
  assertEquals(await follow(portal.POST()), "/billing", "no customer");
  for (const price of ["price_of_others", "toString"]) {
    assertEquals(await buy(price), 400);
  }
  assertEquals(asked, []);

  assertEquals(await buy("price_pro"), SESSION);
  assertEquals(asked.pop(), {
    pathname: "/v1/checkout/sessions",
    mode: "subscription",
    "line_items[0][price]": "price_pro",
    "line_items[0][quantity]": "1",
    "subscription_data[metadata][accountId]": accountId,
    "subscription_data[trial_period_days]": "14",
    success_url: `${SITE_URL}/billing?paid=1`,
    cancel_url: `${SITE_URL}/billing`,
  });

  await grant(accountId, "price_gift");
  await sql`update billing.subscriptions set cancel_at = now()`;
  assertMatch(await html(), /price_gift.*It has ended.*"price_pro">Pro</);

  // It has access already.
  await sql`update billing.subscriptions set cancel_at = null`;
  assertMatch(await html(), /price_gift.*It has no end.*"price_pro">Pro</);
  for (const seconds of [1, 2, 3]) {
    const next = `content="1;url=/billing?paid=${seconds + 1}"`;
    assertStringIncludes(await html(`${seconds}`), next);
  }
  for (const paid of ["31", "x"]) {
    assertMatch(await html(paid), /action="\/billing".*has not confirmed/);
  }
  const trial = { status: "trialing", quantity: 4 };
  await happens("customer.subscription.created", trial);
  assertMatch(
    await html("4"),
    /Pro<.*Your trial ends on January 31, 2035.*Seats: 4</,
  );
  await sql`select billing.end_grant(subscription_id, 'it pays') from billing.grants`;

  assertEquals(await buy("price_starter"), "/billing", "it has a plan");
  assertEquals(asked, []);
  assertEquals(await follow(portal.POST()), SESSION);
  const customerOf = (id: string) => `cus_${id.slice("sub_".length)}`;
  assertEquals(asked.pop(), {
    pathname: "/v1/billing_portal/sessions",
    customer: customerOf(subscription),
    return_url: `${SITE_URL}/billing`,
  });

  Deno.env.delete("STRIPE_SECRET_KEY");
  assertEquals(await follow(portal.POST()), 502);
  Deno.env.set("STRIPE_SECRET_KEY", env.STRIPE_SECRET_KEY);

  const time = Date.UTC(2035, 1, 28) / 1000;
  for (
    const [options, shows] of [
      [{ status: "active", periodEnd: time }, /It renews on February 28, 2035/],
      [{ status: "active", cancelAt: time }, /It ends on February 28, 2035/],
      [
        { status: "past_due", cancelAt: time },
        /"alert">Your last .* before \w+ \d+, 20\d\d\..*It ends on February/,
      ],
      [{ status: "unpaid" }, /It is paused, or not paid/],
    ] as const
  ) {
    await happens("customer.subscription.updated", options);
    assertMatch(await html(), shows);
    assertEquals(await buy("price_pro"), "/billing");
  }

  // It paid twice, as another customer, and has ended that.
  const second = { subscription: uniqueId("sub") };
  await happens("customer.subscription.created", second);
  await happens("customer.subscription.deleted", second);
  assertEquals(await follow(portal.POST()), SESSION);
  assertEquals(asked.pop()!["customer"], customerOf(subscription));

  await happens("customer.subscription.deleted");
  assertMatch(await html(), /It has ended.*"price_pro"/);
  assertEquals(await buy("price_pro"), SESSION);
  const again = asked.pop()!;
  assertEquals(again["customer"], customerOf(second.subscription));
  assertEquals(again["subscription_data[trial_period_days]"], undefined);
});

Deno.test("of many at once, as many take the last places as there are", async () => {
  await using _ = await applyPage();
  const account = await signIn();
  const user = (await readAccount())!;
  const take = (feature: string, n: number) =>
    user.supabase.rpc("use_feature", { feature, n });
  // The API reads the schema again.
  await eventually(async () => (await take("unknown", 1)).data === false);

  const takeMany = async () => {
    const all = Array.from({ length: 9 }, () => takeOne(user, "projects"));
    return (await Promise.all(all)).filter((isTaken) => isTaken).length;
  };
  assertEquals(await takeMany(), 1);
  await grant(account, "price_starter");
  assertEquals(await takeMany(), 2);
  assertEquals((await take("projects", -3)).data, false);
  await grant(account, "price_pro");
  assertEquals(await takeMany(), 9, "unlimited");

  const table = user.supabase.from("used_features" as never);
  assertEquals((await table.select()).error?.code, DENIED);
});
