/**
 * An import while events of the same subscriptions arrive: in any order, the end
 * state is that of the model.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { importPages, noProgress } from "../../scripts/stripe_sync/apply.ts";
import { freshSeed, seededRandom } from "../support/random.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { eventBody } from "../support/histories/event_body.ts";
import type { HistoryEvent } from "../support/histories/history.ts";
import { startReceiver } from "../support/receiver.ts";
import { deliver } from "../support/send.ts";
import { connect } from "../support/tables.ts";
import { assertRecords } from "./end_state.ts";
import { randomEvents } from "./random_events.ts";
import { createStripeAccount } from "./stripe_account.ts";
import { serveStripeApi } from "./stripe_api.ts";
import { testContext } from "./test_context.ts";

/** Events before there was an endpoint, and while the import runs. */
const PAST = 1_000;
const PRESENT = 1_000;
/** Events that are on their way at once; they overtake each other. */
const ON_THEIR_WAY = 8;
/** Smaller than Stripe's, so that more events arrive between two pages. */
const MAX_PAGE = 10;

const sql = connect();
const receiver = await startReceiver();
Deno.test.afterAll(async () => {
  await receiver[Symbol.asyncDispose]();
  await sql.end();
});

Deno.test("an import while 1,000 random events arrive ends in the state of the model", async () => {
  const seed = freshSeed();
  const random = seededRandom(seed);
  const events = randomEvents(PAST + PRESENT, {
    seed,
    prefix: uniqueId("import"),
  });
  const account = createStripeAccount();
  const past = events.slice(0, -PRESENT);
  past.forEach(account.happen);
  const present = events.slice(-PRESENT);

  const waiting: HistoryEvent[] = [];
  let delivered = 0;
  async function deliverSome(count: number): Promise<void> {
    for (let i = 0; i < count && waiting.length > 0; i += ON_THEIR_WAY) {
      const together = Array.from(
        { length: ON_THEIR_WAY },
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
    maxPage: MAX_PAGE,
    // After Stripe has read its data, and before it answers.
    beforeAnswer: async () => {
      happenSome();
      await deliverSome(Math.floor(random() * 80));
    },
  });
  const progress = noProgress(undefined);
  const context = testContext(api.url);
  await importPages(context.stripe.subscriptions(), progress, context);
  const during = delivered;
  while (present.length + waiting.length > 0) {
    happenSome();
    await deliverSome(100);
  }

  assertEquals([progress.errors.size, progress.unmapped], [0, []]);
  assert(progress.imported > 100, `${progress.imported} imported`);
  assert(during > 100, `${during} delivered during the import`);
  assertEquals(delivered, PRESENT);
  await assertRecords(events, sql);
  console.log(
    `${progress.read} subscriptions, ${progress.imported} imported, ${during} events meanwhile, seed ${seed}`,
  );
});
