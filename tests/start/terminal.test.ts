/**
 * What a developer sees at a terminal of 80 columns while the local stack runs:
 * deliveries, saved changes, and migrations that are not applied.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { waitUntil } from "../../scripts/local_stack/wait_until.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { copyRepository } from "../support/copy_repository.ts";
import { HANG_LIMIT_MS } from "../support/hang_limit.ts";
import { deliver } from "../support/send.ts";
import { openTerminal, placeForStack } from "../support/terminal.ts";

const CREATED = "customer.subscription.created";
const UPDATED = "customer.subscription.updated";

Deno.test("start at a terminal shows what happens", async (test) => {
  await using opened = new AsyncDisposableStack();
  const { path } = opened.use(await copyRepository());
  const { apiUrl, env } = await placeForStack(opened);
  const terminal = opened.use(await openTerminal(path));
  Object.assign(terminal.env, env);
  const stack = opened.use(
    await terminal.start("deno task start", { columns: 80 }),
  );
  const named = { subscription: "sub_shown" };
  const send = (type: typeof CREATED | typeof UPDATED, subscription: string) =>
    deliver(
      `${apiUrl}/functions/v1/billing-webhook`,
      subscriptionEvent(type, { subscription }),
    );
  const answers = async (expected: string) =>
    assert(
      await waitUntil(
        async () => (await send(UPDATED, named.subscription)).body === expected,
        { timeoutMs: HANG_LIMIT_MS },
      ),
      `no answer is "${expected}"`,
    );

  await test.step("each delivery in a line; below a failure, the next step", async () => {
    await send(CREATED, named.subscription);
    const applied = await stack.line(/^\d\d:\d\d:\d\d 200 applied .*sub_shown/);
    assertMatch(applied, / \d+ ms$/);
    await send(UPDATED, "sub_without_a_creation");
    const failed = await stack.line(/500 failed .*sub_/);
    const next = await stack.line(/subscription_unknown: Apply its creation/);
    const lines = stack.lines();
    assertEquals(lines.indexOf(next), lines.indexOf(failed) + 1);
    // From the worker, which start wakes; what may heal raises no alert yet.
    await deliver(`${apiUrl}/functions/v1/billing-webhook`, "no event");
    await stack.line(/ alert +body_not_json: 1 new, 1 open/);
  });

  await test.step("a saved change is served, and so is what corrects a mistake", async () => {
    const file = `${path}/supabase/functions/billing-webhook/handle_webhook.ts`;
    const code = await Deno.readTextFile(file);
    await Deno.writeTextFile(file, code.replace('"OK"', '"OK, changed"'));
    await stack.line(/reload +the new code of webhook is served/);
    await answers("OK, changed");

    await Deno.writeTextFile(file, `${code}\nconst x = ;\n`);
    await stack.line(/SyntaxError: Expression expected/);
    await stack.line(/reload +webhook ended; it starts again when you save/);
    assertEquals((await send(UPDATED, named.subscription)).status, 503);
    await Deno.writeTextFile(file, code);
    await answers("OK");
    const worker = await fetch(`${apiUrl}/functions/v1/billing-worker`, {
      method: "POST",
    });
    assertEquals(worker.status, 401, await worker.text());
  });

  await test.step("a migration that is not applied as it is", async () => {
    const folder = `${path}/supabase/migrations`;
    const file = `${folder}/20261125000000_billing.sql`;
    await Deno.writeTextFile(`${folder}/20991231000000_mine.sql`, "select 1;");
    await stack.line(/migration +20991231000000 is not applied yet: restart/);
    await Deno.writeTextFile(file, "\nselect 1;\n", { append: true });
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
    assertEquals(await stack.stop(), []);
  });
});
