/**
 * However `deno task start` ends, none of its processes is left; if it is killed
 * itself, until the next start. A reader that stops reading does not block
 * deliveries.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { leftOf, processTree } from "../support/process_tree.ts";
import { deliver } from "../support/send.ts";
import { startedStack } from "../support/started_stack.ts";
import { HANG_LIMIT_MS } from "../support/hang_limit.ts";

/** Their log lines are twice what a pipe holds. */
const FAILING_DELIVERIES = 400;

/** `deno task`, `start`, Postgres with its own, PostgREST, two functions. */
const AT_LEAST = 10;

const dataDir = await Deno.makeTempDir({ prefix: "billing-webhook-ended-" });
Deno.test.afterAll(() => Deno.remove(dataDir, { recursive: true }));

Deno.test("start goes on while nobody reads its output, and ends when the reader does", async () => {
  await using stack = await startedStack(dataDir);
  const tree = await processTree(stack.id);
  for (let i = 0; i < FAILING_DELIVERIES; i++) {
    const { status } = await deliver(
      stack.webhookUrl,
      subscriptionEvent("customer.subscription.deleted", {
        subscription: uniqueId("sub"),
      }),
      { signal: AbortSignal.timeout(HANG_LIMIT_MS) },
    );
    assertEquals([i, status], [i, 500]);
  }
  await stack.hangUp();
  assertEquals([await leftOf(tree), tree.size > AT_LEAST], [[], true]);
});

for (const signal of ["SIGHUP", "SIGKILL"] as const) {
  Deno.test(`start leaves nothing when deno task is ended by ${signal}`, async () => {
    await using stack = await startedStack(dataDir);
    const tree = await processTree(stack.id);
    stack.kill(signal);
    assertEquals([await leftOf(tree), tree.size > AT_LEAST], [[], true]);
  });
}

Deno.test("what a start that was killed has left is ended by the next one, which leaves nothing", async () => {
  await using killed = await startedStack(dataDir);
  const tree = await processTree(killed.id);
  const [start] = [...tree].find(([, { command }]) =>
    / scripts\/start\.ts$/.test(command)
  )!;
  Deno.kill(start, "SIGKILL");
  await using stack = await startedStack(dataDir);
  assertEquals([await leftOf(tree), tree.size > AT_LEAST], [[], true]);
  const next = await processTree(stack.id);
  stack.kill("SIGTERM");
  assertEquals(await leftOf(next), []);
});
