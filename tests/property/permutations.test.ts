/**
 * Every order in which the five events of a subscription's life can arrive,
 * with up to two of the deliveries repeated, ends as the order of occurrence.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import postgres from "postgres";
import { setting } from "../support/test_environment.ts";
import { assertEndState } from "./end_state.ts";
import { type HistoryEvent, renamed, type Values } from "./history.ts";
import { arrivals } from "./permutations.ts";
import { wireEvent } from "./wire_event.ts";

const START = 1_770_000_000;
const ARRIVALS = 18_720;
/** Arrivals of different subscriptions go together; they have nothing in common. */
const TOGETHER = 60;

const FIRST: Values = {
  status: "active",
  plan: "price_basic",
  periodEnd: START + 1000,
};
const SECOND: Values = { ...FIRST, status: "past_due" };
const THIRD: Values = {
  status: "unpaid",
  plan: "price_team",
  periodEnd: START + 2000,
};

/** `created, updated, updated, payment_failed, deleted`, so many seconds apart. */
function life(seconds: number): HistoryEvent[] {
  const events = [
    { type: "customer.subscription.created", values: FIRST, previous: {} },
    {
      type: "customer.subscription.updated",
      values: SECOND,
      previous: { status: FIRST.status },
    },
    { type: "customer.subscription.updated", values: THIRD, previous: SECOND },
    { type: "invoice.payment_failed", values: THIRD, previous: {} },
    { type: "customer.subscription.deleted", values: THIRD, previous: {} },
  ] as const;
  return events.map((event, i) => ({
    ...event,
    id: String(i),
    created: START + i * seconds,
    subscription: "0",
    account: "acc_0",
  }));
}

for (
  const [name, seconds] of [["all in one second", 0], [
    "a minute apart",
    60,
  ]] as const
) {
  Deno.test(`every arrival of five events ${name} ends as in order of occurrence`, async () => {
    const sql = postgres(setting("TEST_DATABASE_URL"), {
      max: 1,
      connection: { synchronous_commit: "off" },
    });
    const prefix = crypto.randomUUID().slice(0, 8);
    const events = life(seconds);
    let checked = 0;
    try {
      let group: { events: HistoryEvent[]; waiting: HistoryEvent[] }[] = [];
      for (const deliveries of arrivals(events, 2)) {
        const own = renamed({ events, deliveries }, `${prefix}_${checked++}`);
        group.push({ events: [...own.events], waiting: [...own.deliveries] });
        if (group.length === TOGETHER || checked === ARRIVALS) {
          await deliverTogether(group.map(({ waiting }) => waiting), sql);
          await assertEndState(
            { events: group.flatMap((own) => own.events) },
            sql,
          );
          group = [];
        }
      }
    } finally {
      await sql.end();
    }
    assertEquals([checked, ARRIVALS % TOGETHER], [ARRIVALS, 0]);
    console.log(`${checked} arrivals`);
  });
}

/**
 * Delivers the first of every queue in one array, then the second, and so on.
 * What fails goes to the end of its queue.
 */
async function deliverTogether(
  queues: HistoryEvent[][],
  sql: postgres.Sql,
): Promise<void> {
  while (queues.length > 0) {
    const batch = queues.map((queue) => queue.shift() as HistoryEvent);
    const rows = await sql<{ place: number; outcome: string }[]>`
      select place, outcome
      from public.apply_billing_events(${
      sql.json(batch.map(wireEvent) as never)
    })`;
    for (const { place, outcome } of rows) {
      if (outcome === "failed") {
        queues[place - 1]?.push(batch[place - 1] as HistoryEvent);
      }
    }
    queues = queues.filter((queue) => queue.length > 0);
  }
}
