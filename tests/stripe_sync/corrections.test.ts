/**
 * Corrections mixed with events, in any order of arrival: they are dated so that
 * the end state is that of the model, whenever Stripe was asked.
 *
 * @module
 */
import { assert } from "@std/assert";
import type postgres from "postgres";
import type Stripe from "stripe";
import type { BillingEvent } from "../../supabase/functions/_shared/billing/apply_events.ts";
import { compare } from "../../scripts/stripe_sync/compare.ts";
import type { SubscriptionRecord } from "../../scripts/stripe_sync/records.ts";
import { freshSeed, seededRandom, shuffled } from "../support/random.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { assertEndState } from "../support/histories/end_state.ts";
import type { HistoryEvent } from "../support/histories/history.ts";
import { modelState } from "../support/histories/model.ts";
import { wireEvent } from "../support/histories/event_body.ts";
import { connect } from "../support/tables.ts";
import { randomEvents } from "./random_events.ts";
import { createStripeAccount } from "./stripe_account.ts";

const EVENTS = 3_000;
const MOST_ASKED = 3;
/** `compare()` subtracts this because Stripe has several clocks; here is one. */
const MARGIN_SECONDS = 5;

/** What Stripe shows, and its clock before it was asked. */
interface Look {
  readonly shown: Stripe.Subscription;
  readonly askedAtSeconds: number;
}

const sql = connect();
Deno.test.afterAll(() => sql.end());

Deno.test("corrections mixed with events, in any order of arrival, end in the state of the model", async () => {
  const seed = freshSeed();
  const random = seededRandom(seed);
  const events = randomEvents(EVENTS, { seed, prefix: uniqueId("correct") });
  const lives = Map.groupBy(events, ({ subscription }) => subscription);
  let corrected = 0;
  const waiting = [...lives.values()];
  async function play(): Promise<void> {
    for (let life = waiting.pop(); life !== undefined; life = waiting.pop()) {
      corrected += await arrive(life, random);
      // A correction does not say since when it is past_due, or which status it
      // had before it was canceled.
      const isCanceled = modelState(life).records.values()
        .some(({ status }) => status === "canceled");
      await assertEndState({ events: life }, sql, {
        except: [
          "past_due_since",
          ...(isCanceled ? ["provider_status" as const] : []),
        ],
      });
    }
  }
  await Promise.all([play(), play(), play(), play()]);
  assert(corrected > 100);
  console.log(
    `${lives.size} subscriptions, ${corrected} corrections, seed ${seed}`,
  );
});

/** Applies a subscription's events and corrections; returns how many of the latter. */
async function arrive(
  life: readonly HistoryEvent[],
  random: () => number,
): Promise<number> {
  const looks = Array.from(
    { length: 1 + Math.floor(random() * MOST_ASKED) },
    () => look(life, random),
  );
  let arriving = shuffled<HistoryEvent | Look>([...life, ...looks], random);
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

/** Looks at a random moment, often between two events of one second. */
function look(life: readonly HistoryEvent[], random: () => number): Look {
  const account = createStripeAccount();
  const happened = 1 + Math.floor(random() * life.length);
  life.slice(0, happened).forEach(account.happen);
  const until = life[happened]?.created ?? account.nowSeconds + 2;
  const askedAtSeconds = account.nowSeconds +
    Math.floor(random() * Math.min(3, until - account.nowSeconds));
  const [shown] = account.subscriptions.values();
  return { shown: shown as unknown as Stripe.Subscription, askedAtSeconds };
}

async function correct({ shown, askedAtSeconds }: Look): Promise<number> {
  const [record] = await sql<SubscriptionRecord[]>`
    select * from public.billing_records where id = ${shown.id}`;
  const comparison = compare(shown, {
    record,
    provider: "a",
    accountFrom: undefined,
    askedAtSeconds: askedAtSeconds + MARGIN_SECONDS,
  });
  if (!("corrections" in comparison)) return 0;
  assert(await apply(comparison.corrections));
  return 1;
}

/** Applies events in one call; returns whether none failed. */
async function apply(
  events: readonly (BillingEvent | Record<string, unknown>)[],
): Promise<boolean> {
  const rows = await sql<{ outcome: string }[]>`
    select outcome from public.billing_apply_events(${
    sql.json(
      events.map((event, i) => ({
        ...event,
        place: i + 1,
      })) as unknown as postgres.JSONValue,
    )
  })`;
  return rows.every(({ outcome }) => outcome !== "failed");
}
