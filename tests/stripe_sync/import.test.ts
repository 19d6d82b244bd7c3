/**
 * `deno task import` against a stand-in for Stripe's API, called through
 * Stripe's own package.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { importPages, noProgress } from "../../scripts/stripe_sync/apply.ts";
import { findDifferences } from "../../scripts/stripe_sync/find_differences.ts";
import { eventBody } from "../property/histories/event_body.ts";
import type { HistoryEvent } from "../property/histories/history.ts";
import { freshSeed, seededRandom } from "../support/random.ts";
import { startReceiver } from "../support/functions.ts";
import { runScript, startScript } from "../support/run_script.ts";
import { deliver } from "../support/send.ts";
import { connect } from "../support/tables.ts";
import { withoutAccount } from "../support/edited.ts";
import { assertRecords, randomEvents } from "./model.ts";
import {
  createStripeAccount,
  type Fault,
  serveStripeApi,
  type StripeAccount,
  testContext,
} from "./stand_in.ts";

/** More than Stripe gives, and the database answers, in one page. */
const MANY = 1_200;
const STATUSES = ["active", "trialing", "past_due", "canceled", "unpaid"];

const sql = connect();
const receiver = await startReceiver();
Deno.test.beforeEach(() => sql`truncate billing.subscriptions`.then(() => {}));
Deno.test.afterAll(async () => {
  await receiver[Symbol.asyncDispose]();
  await sql.end();
});

function accountWith(count: number): StripeAccount {
  return createStripeAccount(count, (i) => ({
    status: STATUSES[i % STATUSES.length] ?? "",
    plan: `price_${i % 5}`,
    periodEnd: 1_800_000_000 + i,
    quantity: i % 4 === 0 ? null : i,
    cancelAtPeriodEnd: i % 3 === 0,
    trialEnd: i % 5 === 0 ? 1_790_000_000 + i : null,
    paused: i % 7 === 0 ? "void" : null,
  }));
}

// That no field differs is what a second run, or a comparison, says.
function expectedRows({ subscriptions }: StripeAccount) {
  return [...subscriptions.values()]
    .map(({ id, metadata, status }) => [id, metadata.accountId, status])
    .sort();
}

async function rows() {
  const rows = await sql`
    select id, account_id, status from billing.subscriptions
    -- Stripe does not say since when.
    where (status = 'past_due') = (past_due_since is not null)
    order by id collate "C"`;
  return rows.map((row) => Object.values(row));
}

Deno.test("import records many subscriptions in spite of rate limits, failures and broken connections, and a second run changes nothing", async () => {
  const account = accountWith(MANY);
  const faults = new Map<number, Fault>([
    [0, "dropped"],
    [3, "busy"],
    [4, "busy, no hint"],
    [8, "broken"],
    [12, "cut off"],
  ]);
  await using api = await serveStripeApi(account, { faults });
  const args = ["--stripe-url", api.url];
  const first = await runScript("import", { args });
  assertEquals(first.code, 0, first.err);
  assertStringIncludes(
    first.out,
    `${MANY} read, ${MANY} imported, 0 corrected`,
  );
  assertStringIncludes(first.err, "Retrying in 1 s.");
  assertEquals(await rows(), expectedRows(account));
  // The package repeats a call by itself if the connection was closed.
  assertEquals(api.requests.length, MANY / 100 + faults.size);

  const versions = () =>
    sql`
    select s.id, s.xmin::text, (select count(*) from billing.processed_events)
    from billing.subscriptions s order by s.id`.then((rows) => [...rows]);
  const state = await versions();
  const second = await runScript("import", { args });
  assertStringIncludes(second.out, `${MANY} read, 0 imported, 0 corrected`);
  assertEquals([second.code, await versions()], [0, state]);

  const [last = ""] = account.subscriptions.keys();
  account.subscriptions.delete(last);
  const { differences } = await findDifferences(testContext(api.url));
  assertEquals(differences, [{ kind: "missing_there", subscription: last }]);
});

for (const [signal, code] of [["SIGINT", 130], ["SIGKILL", 137]] as const) {
  Deno.test(`import interrupted by ${signal} and run again gives the same result`, async () => {
    const account = accountWith(600);
    const halfway = Promise.withResolvers<void>();
    const killed = Promise.withResolvers<void>();
    let pages = 0;
    await using api = await serveStripeApi(account, {
      beforeAnswer: async () => {
        if (++pages !== 4) return;
        halfway.resolve();
        await killed.promise;
      },
    });
    const args = ["--stripe-url", api.url];
    const running = startScript("import", { args });
    await Promise.race([halfway.promise, running.result]);
    running.kill(signal);
    killed.resolve();
    const interrupted = await running.result;
    assertEquals(interrupted.code, code);
    const partly = (await rows()).length;
    assert(partly > 0 && partly < 600, `${partly} rows`);

    const after = /--after (\S+)\./.exec(interrupted.out)?.[1];
    assertEquals(after !== undefined, signal === "SIGINT", interrupted.out);
    const again = await runScript("import", {
      args: after === undefined ? args : [...args, "--after", after],
    });
    assertEquals(again.code, 0, again.err);
    assertEquals(await rows(), expectedRows(account));
    const { differences } = await findDifferences(testContext(api.url));
    assertEquals(differences, []);
    if (after) assertStringIncludes(again.out, `${600 - partly} read`);
  });
}

Deno.test("import lists subscriptions without an account ID, and --account-from names another source", async () => {
  const account = accountWith(5);
  const [older, newer, one, nobodys, other] = account.subscriptions.values();
  assert(older && newer && one && nobodys && other);
  const { customer } = other;
  const ofOlder = { customer: older.customer };
  // Stripe lists the newest first, so the account is known only afterwards.
  account.change(newer.id, { ...withoutAccount(newer), ...ofOlder });
  // Two accounts, of which only one is recorded before it: it could be either's.
  account.change(nobodys.id, { ...withoutAccount(nobodys), customer });
  account.change(one.id, { customer });
  await using api = await serveStripeApi(account, { maxPage: 1 });
  const args = ["--stripe-url", api.url];
  const left = await runScript("import", { args });
  assertEquals(left.code, 1);
  for (
    const line of [
      "5 read, 4 imported, 0 corrected, 1 without an account ID, 0 failed",
      `no account     ${nobodys.id}, customer ${customer}`,
      "--account-from",
    ]
  ) assertStringIncludes(left.out, line);

  const env = { UNMAPPED_SUBSCRIPTIONS: "ignore" };
  assertEquals((await runScript("import", { args, env })).code, 0);
  const from = ["--account-from", "customer"];
  const mapped = await runScript("import", { args: [...args, ...from] });
  assertEquals(mapped.code, 0, mapped.err);
  assertEquals(
    (await rows()).map(([, account]) => account),
    ["acc_0", "acc_0", "acc_2", customer, "acc_4"],
  );
});

Deno.test("import ends with an error for the wrong mode, key or project, or a subscription that it cannot read", async () => {
  const account = accountWith(1);
  await using api = await serveStripeApi(account);
  const key = "sk_live_stand_in";
  await using live = await serveStripeApi(account, { key });
  const odd = createStripeAccount(1, () => ({ plan: "" }));
  await using unreadable = await serveStripeApi(odd);
  const isLive = { STRIPE_API_KEY: key };
  const wrongKey = { SUPABASE_SECRET_KEY: "sb_secret_wrong" };
  for (
    const [line, env, code, reason] of [
      [`${live.url} --mode live`, isLive, 3, "is not in live mode"],
      [live.url, {}, 3, "Invalid API Key"],
      [api.url, wrongKey, 3, "refuses the secret key"],
      [`${api.url} --project-url http://127.0.0.1:1`, {}, 3, "task start"],
      [api.url, isLive, 2, "--mode live"],
      [unreadable.url, {}, 1, "not imported   sub"],
    ] as const
  ) {
    const args = `--stripe-url ${line}`.split(" ");
    const ended = await runScript("import", { args, env });
    assertEquals(ended.code, code, ended.err);
    assertStringIncludes(ended.err + ended.out, reason);
  }
  assertEquals(await rows(), []);
});

Deno.test("an import while 1,000 random events arrive ends in the state of the model", async () => {
  const seed = freshSeed();
  const random = seededRandom(seed);
  const prefix = uniqueId("import");
  const events = randomEvents(2_000, { seed, prefix });
  const account = createStripeAccount();
  const present = events.slice(-1_000);
  events.slice(0, -1_000).forEach(account.happen);

  const waiting: HistoryEvent[] = [];
  let delivered = 0;
  // Eight are on their way at once; they overtake each other.
  async function deliverSome(count: number): Promise<void> {
    for (let i = 0; i < count && waiting.length > 0; i += 8) {
      const together = Array.from(
        { length: 8 },
        () => waiting.splice(Math.floor(random() * waiting.length), 1),
      ).flat();
      await Promise.all(together.map(async (event) => {
        const answer = await deliver(receiver.url, eventBody(event));
        if (answer.status === 200) delivered++;
        else waiting.push(event);
      }));
    }
  }
  function happenSome(): void {
    const happening = present.splice(0, 15 + Math.floor(random() * 30));
    happening.forEach(account.happen);
    waiting.push(...happening);
  }

  await using api = await serveStripeApi(account, {
    // Smaller than Stripe's, so that more events arrive between two pages.
    maxPage: 10,
    // Takes the margin of corrections away: they are dated half a second before
    // the account was read.
    clockAheadSeconds: 6,
    // After Stripe has read its data, and before it answers.
    beforeAnswer: async () => {
      happenSome();
      await deliverSome(Math.floor(random() * 80));
    },
  });
  const progress = noProgress();
  const context = testContext(api.url);
  await importPages(context.stripe.subscriptions(), progress, context);
  const during = delivered;
  while (present.length + waiting.length > 0) {
    happenSome();
    await deliverSome(100);
  }

  assertEquals([progress.errors.size, progress.unmapped], [0, []], `${seed}`);
  assert(progress.imported > 100, `${progress.imported} imported`);
  assert(during > 100, `${during} delivered during the import`);
  assertEquals(delivered, 1_000);
  await assertRecords(events, sql);
});
