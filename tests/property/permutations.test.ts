/**
 * Every order in which five events of one second can arrive ends in the state of
 * the order of occurrence. The bursts are those that Stripe makes, in both shapes
 * of its API. Some of them, in the newest shape, also arrive with one delivery
 * repeated: whether an event is a duplicate does not depend on its shape.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import postgres from "postgres";
import { API_VERSIONS } from "../../scripts/events/templates.ts";
import { setting } from "../support/test_environment.ts";
import { assertEndState } from "../support/histories/end_state.ts";
import { renamed } from "../support/histories/history.ts";
import { arrivals } from "../support/histories/arrivals.ts";
import { deliverTogether } from "./sql_delivery.ts";
import {
  type Happening,
  type Life,
  liveThrough,
  type Moment,
} from "../support/histories/subscription_life.ts";

/** 5! */
const ORDERS = 120;
/** And, for each event that comes twice, 6! / 2. */
const ARRIVALS = 1_920;
/** Arrivals of different subscriptions go together; they have nothing in common. */
const TOGETHER = 60;

const NEUTRAL: Happening = {};
const ITEM: Happening = { item: true };
const INVOICE: Happening = { invoice: true };

/** In the second of the creation, after it. */
const AT_CREATION: Record<string, Partial<Life>> = {
  "the first payment": {
    creation: {
      status: "incomplete",
      happenings: [NEUTRAL, { status: "active" }, NEUTRAL, ITEM],
    },
  },
  "a whole life": {
    creation: {
      status: "active",
      happenings: [
        { status: "past_due" },
        { status: "unpaid", plan: "price_team", period: 2 },
        INVOICE,
      ],
    },
    deletion: 0,
  },
};

/** A day later. */
const LATER: Record<string, readonly Happening[]> = {
  "the end of a trial": [
    ITEM,
    { status: "active", period: 2 },
    NEUTRAL,
    ITEM,
    NEUTRAL,
  ],
  "a renewal that is not paid": [
    { period: 2 },
    NEUTRAL,
    { status: "past_due" },
    INVOICE,
    { status: "unpaid" },
  ],
  "an upgrade that is not paid": [
    { plan: "price_team", period: 2 },
    ITEM,
    { status: "past_due" },
    INVOICE,
    NEUTRAL,
  ],
  "seats, then past_due": [
    ITEM,
    { status: "past_due" },
    ITEM,
    { plan: "price_team" },
    { status: "unpaid", item: true },
  ],
  "five changes of status, plan and period": [
    { status: "active", plan: "price_2", period: 2 },
    { status: "past_due", plan: "price_3", period: 3 },
    { status: "unpaid", plan: "price_4", period: 4 },
    { status: "paused", plan: "price_5", period: 5 },
    { status: "incomplete", plan: "price_6", period: 6 },
  ],
  "five changes of everything else": [
    { quantity: 2, paused: "void", cancelAt: 2, trialEnd: 2, customer: null },
    {
      quantity: null,
      paused: "keep_as_draft",
      cancelAt: 3,
      trialEnd: 3,
      customer: "cus_3",
    },
    {
      quantity: 4,
      paused: "mark_uncollectible",
      cancelAt: 4,
      trialEnd: 4,
      customer: "cus_4",
    },
    { quantity: 5, cancelAt: 5, trialEnd: 5, customer: "cus_5" },
    { quantity: 6, cancelAt: 6, trialEnd: 6, customer: "cus_6" },
  ],
  "seats that are not paid, then none": [
    { quantity: 3 },
    NEUTRAL,
    { status: "past_due" },
    { quantity: null },
    ITEM,
  ],
  "an end that moves with the period, and is taken back": [
    { cancelAtPeriodEnd: true },
    { period: 2 },
    ITEM,
    { cancelAtPeriodEnd: false, cancelAt: 3 },
    { status: "past_due" },
  ],
  "a pause in two ways, resumed, at the end of a trial": [
    { paused: "keep_as_draft", trialEnd: 2 },
    { paused: "void" },
    { status: "active", period: 2 },
    { paused: "mark_uncollectible", quantity: 0 },
    NEUTRAL,
  ],
};

function life(changes: Partial<Life>): Life {
  return {
    apiVersion: "2024-06-20",
    isOfFirst: false,
    start: 0,
    creation: { status: "trialing", happenings: [] },
    moments: [],
    deletion: undefined,
    afterlife: [],
    ...changes,
  };
}

function later(happenings: readonly Happening[]): Moment[] {
  return [{ gap: 86_400, happenings }];
}

for (const apiVersion of API_VERSIONS) {
  const isNewest = apiVersion === API_VERSIONS.at(-1);
  for (const [name, changes] of Object.entries(AT_CREATION)) {
    checkArrivals(name, life({ apiVersion, ...changes }), {
      repetitions: isNewest ? 1 : 0,
    });
  }
  for (const [name, happenings] of Object.entries(LATER)) {
    // Whatever the burst: once the creation is there, none fails, and what
    // comes again is a duplicate.
    checkArrivals(name, life({ apiVersion, moments: later(happenings) }), {
      repetitions: isNewest && name === "the end of a trial" ? 1 : 0,
    });
  }
}
checkArrivals(
  "a life with a minute between its events",
  life({
    moments: [
      { gap: 60, happenings: [{ status: "past_due" }] },
      { gap: 60, happenings: [{ status: "unpaid", plan: "price_2" }] },
      { gap: 60, happenings: [INVOICE] },
    ],
    deletion: 60,
  }),
  { repetitions: 0 },
);

function checkArrivals(
  name: string,
  lived: Life,
  { repetitions }: { repetitions: 0 | 1 },
): void {
  Deno.test(`every arrival of ${name} (${lived.apiVersion}) ends in the state of the order of occurrence`, async () => {
    const events = liveThrough(lived, 0);
    const prefix = crypto.randomUUID().slice(0, 8);
    // The others are there already when the burst arrives.
    const before = events.length - 5;
    const queues = [...arrivals(events.slice(-5), repetitions)]
      .map((deliveries) => ({ events, deliveries }))
      .map((arrival, i) => renamed(arrival, `${prefix}_${i}`));
    assertEquals(queues.length, repetitions === 0 ? ORDERS : ARRIVALS);
    const sql = postgres(setting("TEST_DATABASE_URL"), {
      max: 1,
      connection: { synchronous_commit: "off" },
    });
    try {
      for (let i = 0; i < queues.length; i += TOGETHER) {
        const group = queues.slice(i, i + TOGETHER);
        await deliverTogether(
          group.map(({ events, deliveries }) => [
            ...events.slice(0, before),
            ...deliveries,
          ]),
          sql,
        );
        await assertEndState(
          { events: group.flatMap(({ events }) => events) },
          sql,
        );
      }
    } finally {
      await sql.end();
    }
  });
}
