/**
 * `deno task reconcile` on a project that was upgraded from the previous version.
 *
 * @module
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { runScript } from "../support/run_script.ts";
import { createUpgradedProject } from "../support/upgraded_project.ts";
import { createStripeAccount, shownSubscription } from "./stripe_account.ts";
import { serveStripeApi } from "./stripe_api.ts";

/** The records as the previous version left them, by id. */
const project = await createUpgradedProject("reconciled", (sql) =>
  sql`
    select id, account_id, status, plan_id,
      extract(epoch from current_period_end)::int as period_end
    from public.subscriptions where provider = 'a' order by id`);
const { sql, after } = project;
Deno.test.afterAll(async () => await project[Symbol.asyncDispose]());

Deno.test("after an upgrade, reconcile names what was not recorded, and --apply fills it", async () => {
  // Open failures are differences as well.
  await sql`
    select public.resolve_failed_event(event_id, 'A test', 'somebody')
    from public.failed_events where resolved_at is null`;
  const account = createStripeAccount();
  account.nowSeconds = Math.floor(Date.now() / 1000);
  for (const { id, account_id, status, plan_id, period_end } of after) {
    account.subscriptions.set(
      id,
      shownSubscription({
        type: "customer.subscription.updated",
        subscription: id,
        account: account_id,
        values: {
          status,
          plan: plan_id,
          periodEnd: period_end,
          quantity: 3,
          trialEnd: 1_770_000_000,
        },
      }, 1_700_000_000),
    );
  }
  await using api = await serveStripeApi(account);
  const options = {
    args: ["--stripe-url", api.url],
    env: { SUPABASE_URL: project.url },
  };

  const dry = await runScript("reconcile", options);
  assertEquals([after.length, dry.code], [5, 1], dry.err);
  assertEquals(
    dry.out.split("\n").slice(0, -1),
    [
      ...[...after].reverse().map(({ id }) =>
        `differs        ${id}: not recorded yet: provider_status, customer_id, quantity, trial_end, livemode`
      ),
      "5 differences. --apply fixes what it can, and deletes nothing.",
      "not recorded yet: 5 of them. An earlier version of the receiver did not record these values. --apply fills them in, and so does the next event of each subscription.",
    ],
  );

  const applied = await runScript("reconcile", {
    ...options,
    args: [...options.args, "--apply"],
  });
  assertEquals(applied.code, 0, applied.out);
  assertStringIncludes(applied.out, "After --apply:\nNo differences.");
  const rows = await sql`
    select id, account_id, status, plan_id,
      extract(epoch from current_period_end)::int as period_end,
      provider_status, customer_id, quantity, cancel_at,
      extract(epoch from trial_end)::int as trial_end, paused, livemode
    from public.subscriptions where provider = 'a' order by id`;
  assertEquals(
    rows.map((row) => ({ ...row })),
    after.map((row) => ({
      ...row,
      provider_status: row["status"],
      customer_id: row["id"].replace("sub_", "cus_"),
      quantity: 3,
      cancel_at: null,
      trial_end: 1_770_000_000,
      paused: null,
      livemode: false,
    })) as unknown[],
  );
  // The other provider's is left alone.
  const [other] = await sql`
    select provider_status from public.subscriptions where provider = 'b'`;
  assertEquals(other?.["provider_status"], null);
});
