/**
 * Every order in which five events of one second can arrive ends in the state of
 * the order of occurrence. The bursts are those that Stripe makes, in both shapes
 * of its API. One of them also arrives with one delivery repeated.
 */
import { assertEquals } from "@std/assert";
import { API_VERSIONS } from "../../scripts/events/templates.ts";
import { assertEndState } from "./histories/end_state.ts";
import {
  arrivals,
  BURSTS,
  eventsOf,
  type Life,
  liveThrough,
  renamed,
} from "./histories/history.ts";
import { deliverTogether } from "./sql_delivery.ts";
import { connect } from "../support/tables.ts";

/** 5! */
const ORDERS = 120;
/** And, for each event that comes twice, 6! / 2. */
const WITH_REPETITIONS = ORDERS + 5 * 360;
/** Arrivals of different subscriptions go together; they have nothing in common. */
const TOGETHER = 60;

const sql = connect(1);
Deno.test.afterAll(() => sql.end());

/** All of it in the second of the creation. */
const WHOLE_LIFE = "a whole life";

const LIVES: Record<string, Partial<Life>> = {
  [WHOLE_LIFE]: {
    creation: {
      status: "active",
      happenings: [
        { status: "past_due" },
        { status: "unpaid", plan: "price_team", period: 2 },
        { invoice: true },
      ],
    },
    deletion: 0,
  },
  "the first payment": {
    creation: {
      status: "incomplete",
      happenings: [{}, { status: "active" }, {}, { item: true }],
    },
  },
  "a life with a minute between its events": {
    moments: [
      { gap: 60, happenings: [{ status: "past_due" }] },
      { gap: 60, happenings: [{ status: "unpaid", plan: "price_2" }] },
      { gap: 60, happenings: [{ invoice: true }] },
    ],
    deletion: 60,
  },
  // The creation is there already when the others arrive, a day later.
  ...Object.fromEntries(
    Object.entries(BURSTS).map(([name, happenings]) => [
      name,
      { moments: [{ gap: 86_400, happenings }] },
    ]),
  ),
};

for (const apiVersion of API_VERSIONS) {
  for (const [name, life] of Object.entries(LIVES)) {
    Deno.test(`every arrival of ${name} (${apiVersion}) ends in the state of the order of occurrence`, async () => {
      const events = liveThrough({
        apiVersion,
        isOfFirst: false,
        start: 0,
        creation: { status: "trialing", happenings: [] },
        moments: [],
        deletion: undefined,
        afterlife: [],
        ...life,
      }, 0);
      const [before, five] = [events.slice(0, -5), events.slice(-5)];
      const isRepeated = name === WHOLE_LIFE && apiVersion === API_VERSIONS[0];
      const orders = [
        five,
        ...(isRepeated ? five.map((event) => [...five, event]) : []),
      ].flatMap((deliveries) => [...arrivals(deliveries)]);
      assertEquals(orders.length, isRepeated ? WITH_REPETITIONS : ORDERS);

      const prefix = crypto.randomUUID().slice(0, 8);
      const histories = orders.map((order, i) =>
        renamed({ events, deliveries: [...before, ...order] }, `${prefix}_${i}`)
      );
      for (let i = 0; i < histories.length; i += TOGETHER) {
        const group = histories.slice(i, i + TOGETHER);
        await deliverTogether(group.map(({ deliveries }) => deliveries), sql);
        await assertEndState({ events: eventsOf(group) }, sql);
      }
    });
  }
}
