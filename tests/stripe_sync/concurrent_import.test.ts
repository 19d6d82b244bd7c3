/**
 * An import while events of the same subscriptions arrive: whichever is first,
 * the end state is the model's.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import {
  importAll,
  noProgress,
} from "../../scripts/stripe_sync/import/import_all.ts";
import { freshSeed, seededRandom } from "../support/random.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { eventBody } from "../support/histories/event_body.ts";
import type { HistoryEvent } from "../support/histories/history.ts";
import { startReceiver } from "../support/receiver.ts";
import { deliver } from "../support/send.ts";
import { connect } from "../support/tables.ts";
import { assertRecords } from "./end_state.ts";
import { randomEvents } from "./live_through.ts";
import { createProviderAccount } from "./provider_account.ts";
import { serveProviderApi } from "./provider_api.ts";
import { workplace } from "./workplace.ts";

/** Before anybody listened, and while the import runs. */
const PAST = 1_000;
const PRESENT = 1_000;
/** Events that are on their way at once; they overtake each other. */
const ON_THEIR_WAY = 8;
/** Smaller than the provider gives, so that more happens between two. */
const MAX_PAGE = 10;

const sql = connect();
const receiver = await startReceiver();
Deno.test.afterAll(async () => {
  await receiver[Symbol.asyncDispose]();
  await sql.end();
});

Deno.test("an import while 1,000 random events arrive ends as the model does", async () => {
  const seed = freshSeed();
  const random = seededRandom(seed);
  const events = randomEvents(PAST + PRESENT, {
    seed,
    prefix: uniqueId("import"),
  });
  const account = createProviderAccount();
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

  await using api = await serveProviderApi(account, {
    maxPage: MAX_PAGE,
    // Between the moment at which the provider looked and its answer.
    beforeAnswer: async () => {
      happenSome();
      await deliverSome(Math.floor(random() * 80));
    },
  });
  const progress = noProgress(undefined);
  await importAll(progress, {
    ...await workplace(api.url),
    accountFrom: undefined,
    onPage: () => {},
  });
  const during = delivered;
  while (present.length + waiting.length > 0) {
    happenSome();
    await deliverSome(100);
  }

  assertEquals([progress.failed, progress.unmapped], [[], []]);
  assert(progress.imported > 100, `${progress.imported} imported`);
  assert(during > 100, `${during} delivered during the import`);
  assertEquals(delivered, PRESENT);
  await assertRecords(events, sql);
  console.log(
    `${progress.read} subscriptions, ${progress.imported} imported, ${during} events meanwhile, seed ${seed}`,
  );
});
