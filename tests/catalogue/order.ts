/**
 * Rows 49 to 56 and 64: good events that are duplicate, late, of one second, or for
 * another record.
 */
import { assertEquals } from "@std/assert";
import { uniqueId } from "../../scripts/events/templates.ts";
import { storedEvent } from "../support/tables.ts";
import {
  APPLIED,
  assertAnswer,
  deliver,
  filed,
  NOT_APPLIED,
  prepare,
  recordOf,
  type Rows,
  type Sent,
} from "./deliver.ts";
import { creation, deletion, failedInvoice, unixNow, update } from "./stage.ts";

/** A minute ago, so that a row may date events after it. */
const THEN = unixNow() - 60;

const state = (status: string, plan_id: string) => ({
  record: { status, plan_id },
});

/** Makes events of one subscription, so many seconds after the start of the row. */
function about(
  make: (
    at: (seconds: number) => { subscription: string; created: number },
  ) => Sent[],
): Sent[] {
  const subscription = uniqueId("sub");
  return make((seconds) => ({ subscription, created: THEN + seconds }));
}

/** Updates of one second. Stripe sends a changed item whole, whatever part changed. */
const UPDATES = [
  { status: "incomplete", plan: "one", previous: { plan: "one" } },
  { status: "active", plan: "one", previous: { status: "incomplete" } },
  { status: "active", plan: "one", previous: {} },
  {
    status: "past_due",
    plan: "two",
    previous: { status: "active", plan: "one" },
  },
] as const;

export const ORDER: Rows = {
  "49: the same event 40 times at once": {
    check: async (stage) => {
      const subscription = uniqueId("sub");
      const events = [
        creation({ subscription, created: THEN }),
        update({ subscription, created: THEN + 1, status: "past_due" }),
        failedInvoice({ subscription, created: THEN + 2 }),
        deletion({ subscription, created: THEN + 3 }),
      ];
      for (const event of events) {
        const { send } = prepare(stage, { body: event });
        const answers = await Promise.all(
          Array.from({ length: 40 }, () => send()),
        );
        for (const answer of answers) assertAnswer(answer, 200);

        const stored = await storedEvent(stage.sql, event.id);
        const counts = Object.values(stored).map((rows) => rows.length);
        const owed = event.type === "invoice.payment_failed" ? 1 : 0;
        assertEquals(counts, [1, 0, owed]);
      }
      const { status } = await recordOf(stage, subscription);
      assertEquals(status, "canceled");
    },
  },
  "50: the same id with another body": {
    ...APPLIED,
    sent: about((at) => {
      const event = creation({ ...at(0), plan: "plan_first" });
      const { id } = event;
      const other = JSON.stringify(deletion({ id, ...at(1) }));
      return [
        { body: event },
        {
          event,
          body: other,
          isDuplicate: true,
          ...state("active", "plan_first"),
        },
      ];
    }),
  },
  "51: an older event after a newer one": {
    ...APPLIED,
    sent: about((at) => {
      const late = update({ ...at(10), status: "unpaid", plan: "old" });
      return [
        { body: creation(at(0)) },
        { body: update({ ...at(20), status: "past_due", plan: "new" }) },
        { body: late, outcome: "stale", ...state("past_due", "new") },
      ];
    }),
  },
  "52: two events of one second, either order": {
    ...APPLIED,
    sent: about((at) => {
      const moved = (from: string, plan: string) =>
        update({ ...at(1), plan, status: "active", previous: { plan: from } });
      const stale = { outcome: "stale" };
      return [
        { body: creation({ ...at(0), plan: "one" }) },
        { body: moved("two", "three") },
        { body: moved("one", "two"), ...stale, ...state("active", "three") },
      ];
    }),
  },
  "53: an update after the deletion": {
    ...APPLIED,
    sent: about((at) => {
      const late = { ...at(10), status: "active", plan: "late" };
      const newer = { ...at(30), status: "active", plan: "newer" };
      return [
        { body: creation(at(0)) },
        { body: deletion(at(20)) },
        { body: update(late), ...state("canceled", "late") },
        { body: update(newer), ...state("active", "newer") },
      ];
    }),
  },
  "54: an event for a subscription that is not there": {
    ...APPLIED,
    sent: about((at) => {
      const early = [update(at(1)), failedInvoice(at(2)), deletion(at(3))]
        .map((body): Sent => ({ body }));
      return [
        ...early.map((sent) => ({ ...sent, ...NOT_APPLIED })),
        { body: creation(at(0)) },
        ...early.map((sent) => ({ ...sent, resolution: "applied" })),
      ];
    }),
  },
  "55: provider B's event for provider A's subscription": {
    ...APPLIED,
    sent: about((at) => [
      { body: creation({ ...at(0), account: "acc_a" }) },
      {
        to: "hex",
        body: creation({ ...at(70), account: "acc_b" }),
        ...filed(500, "subscription_of_other_provider"),
        record: { account_id: "acc_a", provider: "a", status: "active" },
      },
    ]),
  },
  "56: committed, but the reply was lost": {
    check: async (stage) => {
      const subscription = uniqueId("sub");
      await deliver(stage, { body: creation({ subscription }), ...APPLIED });
      const invoice = failedInvoice({ subscription });
      const { behindFaults, faultyApi } = stage;

      // The receiver learns that the database has committed when it files the failure.
      faultyApi.fails({ billing_apply_events: "reply lost" });
      await deliver(stage, { to: behindFaults, body: invoice, ...APPLIED });
      assertEquals(faultyApi.calls("billing_apply_events"), 2, "One more try");
      faultyApi.fails({});

      const { failures, notifications } = await deliver(stage, {
        body: invoice,
        isDuplicate: true,
        ...APPLIED,
      });
      assertEquals([failures.length, notifications.length], [0, 1]);
    },
  },
  "64: two, three or four updates of one second, in any order": {
    ...APPLIED,
    sent: about((at) => [
      { body: creation({ ...at(0), status: "incomplete", plan: "one" }) },
      ...UPDATES.toReversed().map((values, i) => ({
        body: update({ ...at(0), ...values }),
        outcome: i === 0 ? "applied" : "stale",
        ...state("past_due", "two"),
      })),
    ]),
  },
};
