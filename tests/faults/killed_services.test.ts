/** Postgres is killed in the middle of a run, and `deno task start` at any place. */
import { assert, assertEquals } from "@std/assert";
import {
  spawnGroup,
  toolEnvironment,
} from "../../scripts/local_stack/tools.ts";
import { invoiceEvent, uniqueId } from "../../scripts/events/templates.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { copyStackTemplate, startOwnStack } from "../support/stacks.ts";
import { eventually } from "../support/hang_limit.ts";
import { leftOf, processTree } from "../support/machine.ts";
import { deliver } from "../support/send.ts";
import { READY, stackPlace } from "../support/terminal.ts";
import { setting } from "../support/test_environment.ts";

const SUBSCRIPTIONS = 60;
/** The answer at which it is killed; there are three events per subscription. */
const KILLED_AT = 100;

Deno.test("no event is lost or applied twice if Postgres is killed", async () => {
  await using running = await startOwnStack({ fsync: true });
  const { stack: { postgres, urls }, sql } = running;
  const url = `${urls.webhookProcess}/billing-webhook`;

  let answers = 0;
  let restarted: Promise<void> | undefined;
  /** Delivers an event until it is taken, as a provider does. */
  const deliverAgain = (event: object) =>
    eventually(async () => {
      const status = await deliver(url, event)
        .then((answer) => answer.status, () => 0);
      if (++answers === KILLED_AT) {
        restarted = postgres.kill().then(() => postgres.start());
      }
      return status === 200;
    });

  const events = Array.from({ length: SUBSCRIPTIONS }, () => {
    const subscription = uniqueId("sub");
    return [
      subscriptionEvent("customer.subscription.created", { subscription }),
      invoiceEvent({ subscription }),
      subscriptionEvent("customer.subscription.deleted", { subscription }),
    ];
  }).flat();
  await Promise.all(events.map(deliverAgain));
  await restarted;

  assert(restarted !== undefined && answers > events.length);
  const [left] = await sql`
    select
      (select count(*)::int from billing.subscriptions where status = 'canceled') as canceled,
      (select count(*)::int from billing.notifications) as notified,
      (select count(*)::int from billing.processed_events) as applied,
      (select count(*)::int from billing.open_failures) as open`;
  assertEquals({ ...left }, {
    canceled: SUBSCRIPTIONS,
    notified: SUBSCRIPTIONS,
    applied: events.length,
    open: 0,
  });
});

/** `deno task`, `start`, Postgres and its children, PostgREST, two functions. */
const LEAST_PROCESSES = 10;
/** Their log lines, with IDs of the greatest length, are twice what a pipe holds. */
const FAILING_DELIVERIES = 140;

const dataDir = await Deno.makeTempDir({ prefix: "billing-webhook-ended-" });
await copyStackTemplate(setting("TEST_STACK_TEMPLATE"), dataDir);
Deno.test.afterAll(() => Deno.remove(dataDir, { recursive: true }));

/**
 * Starts a stack on free ports, and reads its output until it is ready. Returns it
 * with all of its processes; `hangUp` closes the reader's end of the pipe.
 */
async function started() {
  const { apiUrl, env } = await stackPlace(dataDir);
  const { child, ended, kill } = spawnGroup({
    command: Deno.execPath(),
    args: ["task", "start"],
    options: {
      clearEnv: true,
      env: { ...toolEnvironment(), NO_COLOR: "1", ...env },
      stdout: "piped",
      stderr: "null",
    },
  });

  const reader = child.stdout.getReader();
  const decoder = new TextDecoder();
  let output = "";
  while (!output.includes(READY)) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`Cannot start:\n${output}`);
    output += decoder.decode(value, { stream: true });
  }

  const tree = await processTree(child.pid);
  assert(tree.size > LEAST_PROCESSES);

  return {
    tree,
    webhookUrl: `${apiUrl}/functions/v1/billing-webhook`,
    kill: () => child.kill("SIGKILL"),
    hangUp: () => reader.cancel(),
    [Symbol.asyncDispose]: async () => {
      await reader.cancel();
      kill("SIGTERM"); // It still runs if the test has failed.
      await leftOf(tree);
      await ended;
    },
  };
}

Deno.test("start leaves nothing when deno task is killed", async () => {
  await using stack = await started();
  stack.kill();
  assertEquals(await leftOf(stack.tree), []);
});

Deno.test("start ends what a killed one has left, goes on unread, and leaves nothing", async () => {
  await using killed = await started();
  const [start] = [...killed.tree].find(([, { command }]) =>
    / scripts\/start\.ts$/.test(command)
  )!;
  Deno.kill(start, "SIGKILL");

  await using stack = await started();
  assertEquals(await leftOf(killed.tree), []);

  for (let i = 0; i < FAILING_DELIVERIES; i++) {
    const { status } = await deliver(
      stack.webhookUrl,
      subscriptionEvent("customer.subscription.deleted", {
        id: uniqueId("evt").padEnd(255, "x"),
        subscription: uniqueId("sub").padEnd(255, "x"),
      }),
    );
    assertEquals([i, status], [i, 500]);
  }

  await stack.hangUp();
  assertEquals(await leftOf(stack.tree), []);
});
