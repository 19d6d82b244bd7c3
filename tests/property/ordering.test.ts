/**
 * In whatever order and however often deliveries arrive, alone, together or at once, the
 * tables end as if each event had been handled once, in the order of occurrence.
 */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import type { JSONValue } from "postgres";
import { type AnyEvent, anyEvents, rowsOf, wireOf } from "./any_event.ts";
import { assertEndState } from "./histories/end_state.ts";
import { wireEvent } from "./histories/event_body.ts";
import {
  eventsOf,
  history,
  type HistoryEvent,
  renamed,
} from "./histories/history.ts";
import {
  caseCount,
  checkProperty,
  seededRandom,
  shuffled,
} from "../support/random.ts";
import { recordFailure } from "../support/queues.ts";
import { connect } from "../support/tables.ts";

/** As many as the receiver sends together; they have nothing in common. */
const TOGETHER = 50;
const CONNECTIONS = 8;
const MOST_CALLS = 2_000;

const sql = connect(CONNECTIONS);
Deno.test.afterAll(() => sql.end());

function histories(most: number) {
  return fc.array(history, { minLength: 1, maxLength: most, size: "max" })
    .map((generated) => {
      const prefix = crypto.randomUUID().slice(0, 8);
      return generated.map((each, i) => renamed(each, `${prefix}_${i}`));
    });
}

/** More than a history has deliveries: by then, its creation has had its turn. */
const MOST_IDLE_ROUNDS = 200;

/**
 * Delivers the first few of every queue in one call, then the next, and so on,
 * and what fails again at the end of its queue, as a provider would. The queues
 * must have no subscription in common.
 */
async function deliverTogether(
  queues: readonly (readonly HistoryEvent[])[],
  random: () => number,
): Promise<void> {
  let waiting = queues.map((queue) => [...queue]);
  let idleRounds = 0;

  while (waiting.length > 0) {
    const sent = waiting.map((queue) =>
      queue.splice(0, Math.ceil(random() ** 2 * 4))
    );
    const batch = sent.flat();
    const failed = await apply(batch);
    for (const event of failed) {
      waiting[sent.findIndex((part) => part.includes(event))]!.push(event);
    }
    waiting = waiting.filter((queue) => queue.length > 0);

    idleRounds = failed.length < batch.length ? 0 : idleRounds + 1;
    if (idleRounds > MOST_IDLE_ROUNDS) {
      throw new Error("Deliveries do not get through");
    }
  }
}

async function apply(
  events: readonly HistoryEvent[],
): Promise<HistoryEvent[]> {
  const sent = events.map((event, i) => ({
    place: i + 1,
    ...wireEvent(event),
  }));
  const rows = await sql<{ place: number; error_code: string }[]>`
    select place, error_code
    from public.billing_apply_events(${sql.json(sent as unknown as JSONValue)})
    where outcome = 'failed'`;

  return await Promise.all(rows.map(async ({ place, error_code }) => {
    const event = events[place - 1]!;
    if (error_code === "40P01") throw new Error(`Deadlock at ${event.id}`);
    const failure = { event_id: event.id, error_code, type: event.type };
    await recordFailure(sql, failure).catch((error) => {
      // Another call has the event: the receiver answers 503, too.
      if (error.code !== "55P03") throw error;
    });
    return event;
  }));
}

Deno.test("billing_apply_events() ends in the state of the order of occurrence", async () => {
  const property = fc.asyncProperty(
    histories(TOGETHER),
    fc.integer(),
    async (those, order) => {
      const queues = those.map(({ deliveries }) => deliveries);
      await deliverTogether(queues, seededRandom(order));
      await assertEndState({ events: eventsOf(those) }, sql);
    },
  );
  await checkProperty(property, { numRuns: 10, endOnFailure: true });
});

async function leftBy(events: readonly AnyEvent[], lengths: readonly number[]) {
  const prefix = crypto.randomUUID();
  const wire = events.map((event, i) => wireOf(event, { prefix, i }));
  for (const length of lengths) {
    const sent = wire.splice(0, length)
      .map((event, place) => ({ ...event, place }));
    await sql`select public.billing_apply_events(${sql.json(sent)})`;
  }

  return await rowsOf(prefix, sql);
}

Deno.test("an array of events leaves what they leave one by one", async () => {
  const property = fc.asyncProperty(
    anyEvents,
    fc.integer(),
    async (events, order) => {
      const random = seededRandom(order);
      const lengths = events.map(() => Math.ceil(random() * 6));
      assertEquals(
        await leftBy(events, lengths),
        await leftBy(events, events.map(() => 1)),
      );
    },
  );
  await checkProperty(property, { numRuns: caseCount(150) });
});

Deno.test("billing_apply_events() neither deadlocks nor loses under overlapping arrays at once", async () => {
  const property = fc.asyncProperty(
    histories(CONNECTIONS),
    fc.boolean(),
    fc.integer(),
    async (those, isDealt, order) => {
      const random = seededRandom(order);
      const events = eventsOf(those);
      // Every connection sends all of them, cut and shuffled in its own way; or they
      // are dealt out, so that arrays have subscriptions in common, but no events.
      await Promise.all(Array.from({ length: CONNECTIONS }, async (_, i) => {
        const sent = isDealt
          ? events.filter((_, j) => j % CONNECTIONS === i)
          : events;
        let waiting = shuffled(sent, random);
        for (let calls = 0; waiting.length > 0; calls++) {
          assert(calls < MOST_CALLS, "Deliveries do not get through");
          const length = Math.ceil(random() ** 2 * TOGETHER);
          const failed = await apply(waiting.slice(0, length));
          waiting = [...waiting.slice(length), ...failed];
        }
      }));
      await assertEndState({ events }, sql);
    },
  );
  await checkProperty(property, { numRuns: 15, endOnFailure: true });
});
