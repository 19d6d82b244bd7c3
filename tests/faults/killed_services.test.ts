/**
 * PostgREST or Postgres is killed in the middle of a run: nothing is
 * lost and nothing is applied twice. However `deno task start` ends, none of its
 * processes is left; if it is killed itself, until the next start.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { deliverAll, deliveriesOf } from "../support/histories/deliver_all.ts";
import { assertEndState } from "../support/histories/end_state.ts";
import { history, renamed } from "../support/histories/history.ts";
import { startOwnStack } from "../support/own_stack.ts";
import { leftOf, processTree } from "../support/process_tree.ts";
import { freshSeed } from "../support/random.ts";
import { deliver } from "../support/send.ts";
import { startedStack } from "../support/started_stack.ts";

const HISTORIES = 40;
const CONNECTIONS = 16;
/** The answer at which the service is killed. */
const KILLED_AT = 200;

for (const service of ["postgrest", "postgres"] as const) {
  Deno.test(`no event is lost or applied twice if ${service} is killed in the middle of a run`, async () => {
    const seed = freshSeed();
    await using own = await startOwnStack({ fsync: true });
    const { stack, sql } = own;
    const histories = fc.sample(history, { seed, numRuns: HISTORIES })
      .map((generated, i) => renamed(generated, String(i)));
    let answers = 0;
    let restarted: Promise<void> | undefined;
    const figures = await deliverAll(deliveriesOf(histories), {
      url: `${stack.urls.webhookProcess}/billing-webhook`,
      connections: CONNECTIONS,
      onAnswer: () => {
        if (++answers !== KILLED_AT) return;
        restarted = stack[service].kill().then(() => stack[service].start());
      },
    });
    await restarted;
    console.log(`${JSON.stringify(figures)}, seed ${seed}`);
    assert(restarted !== undefined && figures.retries > 0);
    const events = histories.flatMap(({ events }) => events);
    await assertEndState({ events }, sql);
  });
}

/** `deno task`, `start`, Postgres with its own, PostgREST, two functions. */
const AT_LEAST = 10;
/** Their log lines are twice what a pipe holds. */
const FAILING_DELIVERIES = 400;

const dataDir = await Deno.makeTempDir({ prefix: "billing-webhook-ended-" });
Deno.test.afterAll(() => Deno.remove(dataDir, { recursive: true }));

/** Starts a stack; `assertGone` waits for the end of all its processes. */
async function started() {
  const stack = await startedStack(dataDir);
  const tree = await processTree(stack.id);
  const assertGone = async () =>
    assertEquals([await leftOf(tree), tree.size > AT_LEAST], [[], true]);
  return { stack, tree, assertGone };
}

Deno.test("start goes on while nobody reads its output, and ends when the reader does", async () => {
  const { stack, assertGone } = await started();
  await using _ = stack;
  const event = () =>
    subscriptionEvent("customer.subscription.deleted", {
      subscription: uniqueId("sub"),
    });
  for (let i = 0; i < FAILING_DELIVERIES; i += CONNECTIONS) {
    const answers = await Promise.all(
      Array.from(
        { length: CONNECTIONS },
        () => deliver(stack.webhookUrl, event()),
      ),
    );
    assertEquals(new Set(answers.map(({ status }) => status)), new Set([500]));
  }
  await stack.hangUp();
  await assertGone();
});

for (const signal of ["SIGHUP", "SIGKILL"] as const) {
  Deno.test(`start leaves nothing when deno task is ended by ${signal}`, async () => {
    const { stack, assertGone } = await started();
    await using _ = stack;
    stack.kill(signal);
    await assertGone();
  });
}

Deno.test("what a start that was killed has left is ended by the next one, which leaves nothing", async () => {
  const killed = await started();
  await using _killed = killed.stack;
  const [start] = [...killed.tree].find(([, { command }]) =>
    / scripts\/start\.ts$/.test(command)
  )!;
  Deno.kill(start, "SIGKILL");
  const next = await started();
  await using _next = next.stack;
  await killed.assertGone();
  next.stack.kill("SIGTERM");
  await next.assertGone();
});
