/**
 * What a developer sees at a terminal while the local stack runs: deliveries one
 * by one, saved changes, and migrations that are not applied.
 *
 * @module
 */
import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import postgres from "postgres";
import { localKeys } from "../../scripts/common/keys.ts";
import { waitUntil } from "../../scripts/common/wait_until.ts";
import { HANG_LIMIT_MS } from "../support/hang_limit.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { leftOf, processTree } from "../support/process_tree.ts";
import { deliver } from "../support/send.ts";
import { startAtTerminal } from "./terminal.ts";

const USER = "11111111-1111-4111-8111-111111111111";
const CONNECTIONS = 64;

Deno.test("start at a terminal shows what happens", async (test) => {
  await using stack = await startAtTerminal();
  const webhookUrl = `${stack.apiUrl}/functions/v1/billing-webhook`;
  const subscription = uniqueId("sub");
  const trigger = (type: string, ...args: string[]) =>
    stack.task("trigger", type, "--subscription", subscription, ...args);

  await test.step("each outcome, with its own event; trigger prints the row", async () => {
    const id = "evt_shown_3";
    const created = 1_700_000_000;
    const options = { id, subscription, created };
    const old = subscriptionEvent("customer.subscription.updated", options);
    const file = `${stack.path}/old_event.json`;
    await Deno.writeTextFile(file, JSON.stringify(old));
    const outcomes = [
      ["customer.subscription.created", "evt_shown_1", "applied"],
      ["customer.subscription.updated", "evt_shown_2", "applied"],
      ["customer.subscription.updated", "evt_shown_2", "duplicate"],
      ["customer.subscription.updated", id, "stale"],
      ["payment_intent.payment_failed", "evt_shown_4", "ignored"],
    ] as const;
    for (const [type, event, outcome] of outcomes) {
      const { out, err } = await (event === id
        ? stack.task("trigger", "--payload", file)
        : trigger(type, "--event", event));
      assertEquals(out, "200 OK\n");
      assertMatch(err, new RegExp(`^${outcome}[.:]`, "m"));
      assertEquals(
        err.includes(`  id                  ${subscription}`),
        outcome !== "ignored",
        err,
      );
      const line = await stack.line(
        new RegExp(`^\\d\\d:\\d\\d:\\d\\d 200 ${outcome} +\\S+ .*${event}`),
      );
      assertMatch(line, / \d+ ms$/);
      assertStringIncludes(line, type.slice(-8));
    }
  });

  await test.step("failures, with the next step", async () => {
    const wrong = { ...subscriptionEvent("customer.subscription.created") };
    await deliver(webhookUrl, { ...wrong, data: { object: {} } });
    await deliver(webhookUrl, "no JSON");
    await fetch(webhookUrl, { method: "POST", body: "{}" });
    await deliver(
      webhookUrl,
      subscriptionEvent("customer.subscription.updated", {
        subscription: "sub_without_a_creation",
      }),
    );
    for (
      const [first, next] of [
        [/422 failed +subscription\.created/, /event_invalid: .*is missing/],
        [/400 failed/, /body_not_json: Send the event as it is/],
        [/401 failed/, /signature_missing: Set PROVIDER_A/],
        [/500 failed .*sub_/, /subscription_unknown: Apply its creation first/],
      ] as const
    ) {
      const line = await stack.line(first);
      await stack.line(next);
      const lines = stack.lines();
      assertMatch(lines[lines.indexOf(line) + 1] ?? "", next);
    }
  });

  await test.step("many at once: all are counted, by what they came to", async () => {
    // The seconds before this burst are over.
    await stack.line(/worker +alerts delivered/);
    const before = stack.lines().length;
    const events = Array.from(
      { length: CONNECTIONS * 4 },
      (_, i) =>
        subscriptionEvent("customer.subscription.updated", {
          subscription: i % 4 === 0 ? uniqueId("sub") : subscription,
        }),
    );
    const statuses = await Promise.all(
      events.map(async (event) => (await deliver(webhookUrl, event)).status),
    );
    const ok = statuses.filter((status) => status === 200).length;
    const failed = statuses.length - ok;
    assert(failed >= CONNECTIONS, `${failed} failed`);
    const counts = () => {
      const lines = stack.lines().slice(before);
      const count = (outcome: string) =>
        lines.filter((line) => new RegExp(` \\d{3} ${outcome} `).test(line))
          .length +
        lines.reduce(
          (sum, line) =>
            sum + Number(
              new RegExp(`more: .*?(\\d+) ${outcome}`).exec(line)?.[1] ?? 0,
            ),
          0,
        );
      return {
        failed: count("failed"),
        ok: count("applied") + count("stale"),
      };
    };
    await waitUntil(() => counts().ok >= ok && counts().failed >= failed, {
      timeoutMs: HANG_LIMIT_MS,
    });
    assertEquals(counts(), { failed, ok });
    const shown = stack.lines().slice(before).filter((line) =>
      line.includes(" 200 ")
    );
    assert(shown.length < ok, `${shown.length} lines for ${ok} deliveries`);
  });

  await test.step("doctor finds the stack by itself, and the failures", async () => {
    const { code, out } = await stack.task("doctor");
    assertEquals(code, 1);
    assertMatch(out, /^FAIL +failures +\d+ open/m);
    assertMatch(out, /^ok +migration +is applied$/m);
    assertMatch(out, /^ok +worker's key /m);
    assertMatch(out, /^skipped +schedule +the local stack wakes/m);
    assertEquals(out.match(/^FAIL/gm)?.length, 1, out);
  });

  await test.step("a user's token opens the REST API as that user", async () => {
    const { out } = await stack.task("token", "--user", USER);
    const sql = postgres(stack.dbUrl, { max: 1, onnotice() {} });
    await sql`
      grant select on billing.subscriptions, public.billing_subscriptions
      to authenticated`;
    await sql`create policy own on billing.subscriptions for select to authenticated
      using (account_id = (select auth.uid())::text)`;
    await sql.end();
    await trigger("customer.subscription.created", "--account", "acc_other");
    const mine = uniqueId("sub");
    await stack.task(
      "trigger",
      "customer.subscription.created",
      "--subscription",
      mine,
      "--account",
      USER,
    );
    const { publishable } = await localKeys();
    const response = await fetch(
      `${stack.apiUrl}/rest/v1/billing_subscriptions?select=id,account_id`,
      {
        headers: {
          apikey: publishable,
          authorization: `Bearer ${out.trimEnd()}`,
        },
      },
    );
    assertEquals(await response.json(), [{ id: mine, account_id: USER }]);
  });

  const signed = async () => {
    const type = "customer.subscription.updated";
    return await deliver(webhookUrl, subscriptionEvent(type, { subscription }));
  };
  const answers = async (expected: string) =>
    assert(
      await waitUntil(async () => (await signed()).body === expected, {
        timeoutMs: HANG_LIMIT_MS,
      }),
      `no answer is "${expected}"`,
    );

  await test.step("a saved change is served, and so is what corrects a mistake", async () => {
    const file =
      `${stack.path}/supabase/functions/billing-webhook/handle_webhook.ts`;
    const code = await Deno.readTextFile(file);
    const save = (change: string) =>
      Deno.writeTextFile(file, code.replace('"OK"', `"OK, ${change}"`));
    await save("changed");
    await stack.line(/reload +the new code of webhook is served/);
    await answers("OK, changed");

    await Deno.writeTextFile(file, `${code}\nconst x = ;\n`);
    await stack.line(/SyntaxError: Expression expected/);
    await stack.line(/reload +webhook ended; it starts again when you save/);
    assertEquals((await signed()).status, 503);
    await save("corrected");
    await answers("OK, corrected");

    const fault = "setTimeout(() => { throw new Error('of the test'); }, 300);";
    await Deno.writeTextFile(file, `${code}\n${fault}\n`);
    await stack.line(/error: Uncaught Error: of the test/);
    await Deno.writeTextFile(file, code);
    await answers("OK");
    const worker = await fetch(`${stack.apiUrl}/functions/v1/billing-worker`, {
      method: "POST",
    });
    assertEquals(worker.status, 401, await worker.text());
  });

  await test.step("saved settings are served, too", async () => {
    const file = `${stack.path}/supabase/functions/.env`;
    await Deno.writeTextFile(
      file,
      "PROVIDER_A_SIGNING_SECRET=whsec_another_secret_0123456789\n",
    );
    await stack.line(/reload +the new settings are served/);
    assertEquals((await signed()).status, 401);
    await Deno.remove(file);
    await answers("OK");
  });

  await test.step("a migration that is not applied as it is", async () => {
    const folder = `${stack.path}/supabase/migrations`;
    const file = `${folder}/20261125000000_billing.sql`;
    await Deno.writeTextFile(`${folder}/20991231000000_mine.sql`, "select 1;");
    await stack.line(/migration +20991231000000 is not applied yet: restart/);
    const text = await Deno.readTextFile(file);
    await Deno.writeTextFile(file, `${text}\nselect 1;\n`);
    await stack.line(
      /migration +the data was made by another version: deno task reset$/,
    );
  });

  await test.step("no line is wider than the terminal, and nothing is left", async () => {
    // But for the paths in Deno's own messages.
    const wide = stack.lines().filter((line) =>
      line.length >= 80 && !/^ +(?:at .*)?\(?file:/.test(line)
    );
    assertEquals(wide, []);
    const tree = await processTree(stack.id);
    await stack[Symbol.asyncDispose]();
    assertEquals(await leftOf(tree), []);
  });
});
