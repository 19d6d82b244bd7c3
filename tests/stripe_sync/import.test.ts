/**
 * `deno task import` against a stand-in for Stripe's API, called through
 * Stripe's own package.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { connect } from "../support/tables.ts";
import { withoutAccount } from "../support/without_account.ts";
import {
  createStripeAccount,
  shownSubscription,
  type StripeAccount,
} from "./stripe_account.ts";
import { type Fault, serveStripeApi } from "./stripe_api.ts";
import { runScript, startScript } from "../support/run_script.ts";

const MANY = 2_500;
const STATUSES = [
  "active",
  "trialing",
  "past_due",
  "canceled",
  "unpaid",
  "incomplete_expired",
  "paused",
];

const sql = connect();
Deno.test.afterAll(() => sql.end());

/** An account with subscriptions of every status. */
function accountWith(count: number): StripeAccount {
  const account = createStripeAccount();
  account.nowSeconds = Math.floor(Date.now() / 1000);
  const run = uniqueId("sub");
  for (let i = 0; i < count; i++) {
    const subscription = `${run}_${i}`;
    account.subscriptions.set(
      subscription,
      shownSubscription({
        type: "customer.subscription.updated",
        subscription,
        account: `acc_${i}`,
        values: {
          status: STATUSES[i % STATUSES.length] ?? "",
          plan: `price_${i % 5}`,
          periodEnd: 1_800_000_000 + i,
          quantity: i % 4 === 0 ? null : i,
          cancelAtPeriodEnd: i % 3 === 0,
          cancelAt: i % 6 === 0 ? 1_810_000_000 + i : null,
          trialEnd: i % 5 === 0 ? 1_790_000_000 + i : null,
          paused: i % 7 === 0 ? "void" : null,
        },
      }, 1_700_000_000 + i),
    );
  }
  return account;
}

/** The expected rows, by id. */
function expectedRows({ subscriptions }: StripeAccount) {
  return [...subscriptions.values()].map((shown) => ({
    id: shown.id,
    provider: "a",
    account_id: shown.metadata.accountId,
    status: shown.status,
    plan_id: shown.items.data[0].price.id,
    current_period_end: shown.items.data[0].current_period_end ?? 0,
    is_canceled: shown.status === "canceled",
    provider_status: shown.status,
    customer_id: shown.customer,
    quantity: shown.items.data[0].quantity ?? null,
    cancel_at: shown.cancel_at ??
      (shown.cancel_at_period_end
        ? shown.items.data[0].current_period_end ?? null
        : null),
    trial_end: shown.trial_end,
    paused: shown.pause_collection?.behavior ?? null,
    livemode: false,
  })).sort((one, other) => one.id < other.id ? -1 : 1);
}

async function rowsOf({ subscriptions }: StripeAccount) {
  const ids = [...subscriptions.keys()];
  const rows = await sql`
    select id, provider, account_id, status, plan_id,
      extract(epoch from current_period_end)::int as current_period_end,
      canceled_at is not null as is_canceled,
      provider_status, customer_id, quantity,
      extract(epoch from cancel_at)::int as cancel_at,
      extract(epoch from trial_end)::int as trial_end,
      paused, livemode
    from billing.subscriptions where id = any (${ids}) order by id collate "C"`;
  return rows.map((row) => ({ ...row }));
}

/** The rows and their versions, to show that nothing changed. */
async function wholeState({ subscriptions }: StripeAccount) {
  const ids = [...subscriptions.keys()];
  const rows = await sql`
    select s.*, s.xmin::text from billing.subscriptions s where id = any (${ids}) order by id`;
  const [ledger] =
    await sql`select count(*)::int as size from billing.processed_events`;
  return { rows: rows.map((row) => ({ ...row })), size: ledger?.["size"] };
}

Deno.test("import records 2,500 subscriptions in spite of rate limits, failures and broken connections, and a second run changes nothing", async () => {
  const account = accountWith(MANY);
  const faults = new Map<number, Fault>([
    [0, "dropped"],
    [3, "busy"],
    [4, "busy, no hint"],
    [8, "broken"],
    [12, "cut off"],
    [13, "dropped"],
  ]);
  await using api = await serveStripeApi(account, {
    fault: (request) => faults.get(request),
  });
  const args = ["--stripe-url", api.url];
  const first = await runScript("import", { args });
  assertEquals(
    [first.code, first.err.includes("Cannot")],
    [0, false],
    first.err,
  );
  assertStringIncludes(first.out, "2500 read, 2500 imported, 0 corrected");
  assertEquals(await rowsOf(account), expectedRows(account));
  // Stripe does not say since when a subscription is past_due.
  const since = await sql`
    select distinct status, past_due_since > now() - interval '10 minutes' as is_new
    from billing.subscriptions
    where id = any (${[
    ...account.subscriptions.keys(),
  ]}) and past_due_since is not null`;
  assertEquals(since.map((row) => Object.values(row)), [["past_due", true]]);
  assertEquals(
    api.requests.filter(({ fault }) => fault !== undefined).length,
    faults.size,
  );
  assertStringIncludes(first.err, "Retrying in 1 s.");

  const state = await wholeState(account);
  const second = await runScript("import", { args });
  assertStringIncludes(second.out, "2500 read, 0 imported, 0 corrected");
  assertEquals(second.code, 0);
  assertEquals(await wholeState(account), state);
});

for (const [signal, code] of [["SIGINT", 130], ["SIGKILL", 137]] as const) {
  Deno.test(`import interrupted by ${signal} and run again gives the same result`, async () => {
    const account = accountWith(600);
    const halfway = Promise.withResolvers<void>();
    let pages = 0;
    await using api = await serveStripeApi(account, {
      beforeAnswer: async () => {
        if (++pages !== 4) return;
        halfway.resolve();
        await new Promise((resolve) => setTimeout(resolve, 300));
      },
    });
    const args = ["--stripe-url", api.url];
    const running = startScript("import", { args });
    await Promise.race([halfway.promise, running.result]);
    running.kill(signal);
    const interrupted = await running.result;
    assertEquals(interrupted.code, code);
    const partly = (await rowsOf(account)).length;
    assert(partly > 0 && partly < 600, `${partly} rows`);

    const after = /--after (\S+)\./.exec(interrupted.out)?.[1];
    assertEquals(after !== undefined, signal === "SIGINT", interrupted.out);
    const again = await runScript("import", {
      args: after === undefined ? args : [...args, "--after", after],
    });
    assertEquals(again.code, 0, again.err);
    assertEquals(await rowsOf(account), expectedRows(account));
    if (after !== undefined) {
      assertStringIncludes(again.out, `${600 - partly} read`);
    }
  });
}

Deno.test("import lists subscriptions without an account ID, and --account-from names another source", async () => {
  const account = accountWith(3);
  const [first, second] = [...account.subscriptions.values()];
  assert(first !== undefined && second !== undefined);
  account.subscriptions.set(first.id, withoutAccount(first));
  await using api = await serveStripeApi(account);
  const args = ["--stripe-url", api.url];

  const left = await runScript("import", { args });
  assertEquals(left.code, 1);
  assertStringIncludes(
    left.out,
    "3 read, 2 imported, 0 corrected, 1 without an account ID",
  );
  assertStringIncludes(
    left.out,
    `no account     ${first.id}, customer ${first.customer}`,
  );
  assertStringIncludes(left.out, "--account-from");
  assert(!left.out.includes(`${second.id},`));

  const ignored = await runScript("import", {
    args,
    env: { UNMAPPED_SUBSCRIPTIONS: "ignore" },
  });
  assertEquals(ignored.code, 0);

  const mapped = await runScript("import", {
    args: [...args, "--account-from", "customer"],
  });
  assertEquals(mapped.code, 0, mapped.err);
  const rows = await rowsOf(account);
  assertEquals(
    rows.find(({ id }) => id === first.id)?.["account_id"],
    first.customer,
  );
  assertEquals(
    rows.find(({ id }) => id === second.id)?.["account_id"],
    "acc_1",
  );
});

Deno.test("import records subscriptions without an account ID of customers whose account is known", async () => {
  const account = accountWith(4);
  const shown = [...account.subscriptions.values()];
  const [older, newer, one, other] = shown;
  assert(older && newer && one && other);
  // Stripe lists the newest first, so the account is known only afterwards.
  const { customer } = older;
  account.subscriptions.set(newer.id, { ...withoutAccount(newer), customer });
  // Two accounts: it could be either's.
  const nobodys = {
    ...withoutAccount(one),
    id: uniqueId("sub"),
    customer: other.customer,
  };
  account.subscriptions.set(one.id, { ...one, customer: other.customer });
  account.subscriptions.set(nobodys.id, nobodys);
  await using api = await serveStripeApi(account, { maxPage: 1 });
  const { code, out } = await runScript("import", {
    args: ["--stripe-url", api.url],
  });
  assertEquals(code, 1);
  assertStringIncludes(
    out,
    "5 read, 4 imported, 0 corrected, 1 without an account ID, 0 failed",
  );
  assertStringIncludes(out, `no account     ${nobodys.id}`);
  const rows = await rowsOf(account);
  const accounts = new Map(rows.map((row) => [row["id"], row["account_id"]]));
  assertEquals(accounts.get(newer.id), "acc_0");
  assertEquals(accounts.get(nobodys.id), undefined);
});

/** What a day adds to a mark. */
const DAY_OF_MARKS = 86_400 * 1_000_000 * 4;

Deno.test("import corrects a record whose mark is ahead of the clock", async () => {
  const account = accountWith(2);
  await using api = await serveStripeApi(account);
  const args = ["--stripe-url", api.url];
  assertEquals((await runScript("import", { args })).code, 0);
  const [first] = [...account.subscriptions.values()];
  assert(first !== undefined);
  await sql`
    update billing.subscriptions set
      status = 'ahead', changed_as_of = changed_as_of + ${DAY_OF_MARKS}
    where id = ${first.id}`;
  account.nowSeconds += 10;
  const again = await runScript("import", { args });
  assertStringIncludes(again.out, "2 read, 0 imported, 1 corrected");
  assertEquals(await rowsOf(account), expectedRows(account));
});

Deno.test("import ends with an error for the wrong mode, key or project", async () => {
  const account = accountWith(1);
  const key = "sk_live_stand_in";
  await using api = await serveStripeApi(account, { key });
  const live = await runScript("import", {
    args: ["--stripe-url", api.url, "--mode", "live"],
    env: { STRIPE_API_KEY: key },
  });
  assertEquals(live.code, 3);
  assertStringIncludes(live.err, "is not in live mode");
  assertEquals(await rowsOf(account), []);

  const wrongKey = await runScript("import", {
    args: ["--stripe-url", api.url],
  });
  assertEquals(wrongKey.code, 3);
  assertStringIncludes(wrongKey.err, "Invalid API Key");

  const noProject = await runScript("import", {
    args: ["--stripe-url", api.url],
    env: { SUPABASE_SECRET_KEY: "sb_secret_wrong" },
  });
  assertEquals(noProject.code, 3);
  assertStringIncludes(noProject.err, "refuses the secret key");

  const nobodyThere = await runScript("import", {
    args: ["--stripe-url", api.url, "--project-url", "http://127.0.0.1:1"],
  });
  assertEquals(nobodyThere.code, 3);
  assertStringIncludes(nobodyThere.err, "deno task start");

  const noMode = await runScript("import", {
    args: [],
    env: { STRIPE_API_KEY: key },
  });
  assertEquals(noMode.code, 2);
  assertStringIncludes(noMode.err, "--mode live");
});
