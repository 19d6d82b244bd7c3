/** Row 64: updates of one second, as many as Stripe makes, in any order. */
import { assertEquals } from "@std/assert";
import { API_VERSIONS } from "../../scripts/events/templates.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { eventBody } from "../support/histories/event_body.ts";
import { renamed } from "../support/histories/history.ts";
import { modelState } from "../support/histories/model.ts";
import { arrivals } from "../support/histories/arrivals.ts";
import {
  type Happening,
  liveThrough,
} from "../support/histories/subscription_life.ts";
import { subscriptionRecord } from "../support/tables.ts";
import { signed } from "./body_checks.ts";
import { assertAnswer } from "./outcome.ts";
import type { Row, Stage } from "./stage.ts";

const NEUTRAL: Happening = {};
/** The whole old item is sent, and neither plan nor period changed. */
const ITEM: Happening = { item: true };

const BURSTS: readonly (readonly Happening[])[] = [
  [ITEM, { status: "past_due" }],
  [NEUTRAL, { status: "active" }, NEUTRAL],
  [NEUTRAL, { status: "active" }, ITEM, { plan: "two", status: "past_due" }],
];

export const ROW_64: Row = {
  row: 64,
  input: "two, three or four updates of one second, in any order",
  check: async (stage) => {
    for (const apiVersion of API_VERSIONS) {
      for (const happenings of BURSTS) {
        const events = liveThrough({
          apiVersion,
          start: 0,
          creation: { status: "incomplete", happenings },
          moments: [],
          deletion: undefined,
          afterlife: [],
        }, 0);
        const orders = [...arrivals(events.slice(1), 0)];
        await Promise.all(orders.map(async (order) => {
          const history = { events, deliveries: order };
          await arrive(renamed(history, uniqueId("order")), stage);
        }));
      }
    }
  },
};

async function arrive(
  { events, deliveries }: ReturnType<typeof renamed>,
  stage: Stage,
): Promise<void> {
  for (const event of [...events.slice(0, 1), ...deliveries]) {
    assertAnswer(await signed(stage.stripe, eventBody(event))(), 200);
  }
  const [expected] = modelState(events).records.values();
  const record = await subscriptionRecord(stage.sql, expected?.id ?? "");
  assertEquals(
    [record?.status, record?.plan_id],
    [expected?.status, expected?.plan_id],
  );
}
