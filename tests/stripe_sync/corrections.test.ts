/**
 * Corrections among events, in any order of arrival: they are dated so that the
 * end state is the model's, wherever between two events the provider was asked.
 *
 * @module
 */
import { assert } from "@std/assert";
import type postgres from "postgres";
import type Stripe from "stripe";
import type { BillingEvent } from "../../supabase/functions/_shared/billing/apply_events.ts";
import { compare } from "../../scripts/stripe_sync/corrections.ts";
import type { SubscriptionRecord } from "../../scripts/stripe_sync/records.ts";
import { freshSeed, seededRandom, shuffled } from "../support/random.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { assertEndState } from "../support/histories/end_state.ts";
import type { HistoryEvent } from "../support/histories/history.ts";
import { wireEvent } from "../support/histories/wire_event.ts";
import { connect } from "../support/tables.ts";
import { randomEvents } from "./live_through.ts";
import { createProviderAccount } from "./provider_account.ts";

const EVENTS = 3_000;
const MOST_ASKED = 3;
/** What `compare()` takes off for the provider's clocks; here there is one. */
const MARGIN_SECONDS = 5;

/** What the provider answered, and its second before it was asked. */
type Answer = { shown: Stripe.Subscription; askedAt: number };

const sql = connect();
Deno.test.afterAll(() => sql.end());

Deno.test("corrections among events, in any order of arrival, end as the model does", async () => {
  const seed = freshSeed();
  const random = seededRandom(seed);
  const events = randomEvents(EVENTS, { seed, prefix: uniqueId("correct") });
  const lives = Map.groupBy(events, ({ subscription }) => subscription);
  let corrected = 0;
  const waiting = [...lives.values()];
  async function play(): Promise<void> {
    for (let life = waiting.pop(); life !== undefined; life = waiting.pop()) {
      corrected += await arrive(life, random);
      await assertEndState({ events: life }, sql);
    }
  }
  await Promise.all([play(), play(), play(), play()]);
  assert(corrected > 100);
  console.log(
    `${lives.size} subscriptions, ${corrected} corrections, seed ${seed}`,
  );
});

/** Lets a life's events arrive, and corrections; how many of these there were. */
async function arrive(
  life: readonly HistoryEvent[],
  random: () => number,
): Promise<number> {
  const answers = Array.from(
    { length: 1 + Math.floor(random() * MOST_ASKED) },
    () => ask(life, random),
  );
  let arriving = shuffled<HistoryEvent | Answer>([...life, ...answers], random);
  let corrected = 0;
  while (arriving.length > 0) {
    const again: HistoryEvent[] = [];
    for (const what of arriving) {
      if ("shown" in what) corrected += await correct(what);
      else if (!await apply([wireEvent(what)])) again.push(what);
    }
    arriving = again;
  }
  return corrected;
}

/** Asks at a random moment, often between two events of one second. */
function ask(life: readonly HistoryEvent[], random: () => number): Answer {
  const account = createProviderAccount();
  const happened = 1 + Math.floor(random() * life.length);
  life.slice(0, happened).forEach(account.happen);
  const until = life[happened]?.created ?? account.now + 2;
  const askedAt = account.now +
    Math.floor(random() * Math.min(3, until - account.now));
  const [shown] = account.subscriptions.values();
  return { shown: shown as unknown as Stripe.Subscription, askedAt };
}

async function correct({ shown, askedAt }: Answer): Promise<number> {
  const [record] = await sql<SubscriptionRecord[]>`
    select * from public.subscriptions where id = ${shown.id}`;
  const comparison = compare(shown, {
    record,
    provider: "a",
    accountFrom: undefined,
    askedAt: askedAt + MARGIN_SECONDS,
  });
  if (!("corrections" in comparison)) return 0;
  assert(await apply(comparison.corrections));
  return 1;
}

/** Applies in one call; whether all of it could be. */
async function apply(
  events: readonly (BillingEvent | Record<string, unknown>)[],
): Promise<boolean> {
  const rows = await sql<{ outcome: string }[]>`
    select outcome from public.apply_billing_events(${
    sql.json(events as unknown as postgres.JSONValue)
  })`;
  return rows.every(({ outcome }) => outcome !== "failed");
}
