/**
 * Rows 49 to 56: good events that are duplicate, late, or for another record.
 */
import { assert, assertEquals } from "@std/assert";
import { waitUntil } from "../../scripts/common/wait_until.ts";
import { HANG_LIMIT_MS } from "../support/hang_limit.ts";
import { edited } from "../support/edited.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { abandonedRequest, headerLines } from "../support/raw_request.ts";
import {
  rowCounts,
  storedEvent,
  subscriptionRecord,
} from "../support/tables.ts";
import { applied, filed, signed } from "./body_checks.ts";
import { creation, deletion, failedInvoice, update } from "./events.ts";
import { assertAnswer, expectFiled } from "./outcome.ts";
import { signedHeaders, unixNow } from "./signature.ts";
import type { Row, Stage } from "./stage.ts";

const UNKNOWN = { status: 500, code: "subscription_unknown" };
const OF_OTHER = { status: 500, code: "subscription_of_other_provider" };

/** What the record says in the end. */
async function stateOf({ sql }: Stage, subscription: string) {
  const record = await subscriptionRecord(sql, subscription);
  return [record?.status, record?.plan_id];
}

/** An update from one plan to the next. */
function moves(
  subscription: string,
  { created, from, to }: { created: number; from: string; to: string },
) {
  const previous = { plan: from };
  const status = "active";
  return update({ subscription, created, plan: to, status, previous });
}

export const ROWS_49_TO_56: readonly Row[] = [
  {
    row: 49,
    input: "the same event 40 times at once",
    check: async (stage) => {
      const subscription = uniqueId("sub");
      const created = unixNow() - 60;
      const events = [
        creation({ subscription, created }),
        update({ subscription, created: created + 1, status: "past_due" }),
        failedInvoice({ subscription, created: created + 2 }),
        deletion({ subscription, created: created + 3 }),
      ];
      for (const event of events) {
        const before = await rowCounts(stage.sql);
        const send = signed(stage.stripe, event);
        const answers = await Promise.all(Array.from({ length: 40 }, send));
        for (const answer of answers) assertAnswer(answer, 200);
        const { ledger, failures, notifications } = await storedEvent(
          stage.sql,
          event.id,
        );
        assertEquals([ledger.length, failures.length], [1, 0]);
        assertEquals(
          notifications.length,
          event.type === "invoice.payment_failed" ? 1 : 0,
        );
        const after = await rowCounts(stage.sql);
        const more = Object.keys(after).filter((table) =>
          after[table]! - before[table]! > 1
        );
        assertEquals(more, [], "Something is there more than once");
      }
      assertEquals((await stateOf(stage, subscription))[0], "canceled");
    },
  },
  {
    row: 50,
    input: "the same id with another body",
    check: async (stage) => {
      const event = creation({ plan: "plan_first" });
      await applied(stage, event);
      const { id } = event;
      const subscription = event.data.object.id;
      const bodies = [
        creation({ id, subscription, plan: "plan_second" }),
        creation({ id, subscription: uniqueId("sub") }),
        deletion({ id, subscription }),
        failedInvoice({ id, subscription }),
      ];
      const before = await rowCounts(stage.sql);
      for (const body of bodies) await applied(stage, event, { body });
      assertEquals(await rowCounts(stage.sql), before);
      assertEquals(await stateOf(stage, subscription), [
        "active",
        "plan_first",
      ]);
    },
  },
  {
    row: 51,
    input: "an older event after a newer one",
    check: async (stage) => {
      const subscription = uniqueId("sub");
      const created = unixNow() - 60;
      await applied(stage, creation({ subscription, created }));
      const newer = { created: created + 20, status: "past_due", plan: "new" };
      await applied(stage, update({ subscription, ...newer }));
      const older = { created: created + 10, status: "unpaid", plan: "old" };
      const late = update({ subscription, ...older });
      await applied(stage, late, { outcome: "stale" });
      assertEquals(await stateOf(stage, subscription), ["past_due", "new"]);
      // And once more, as a duplicate.
      await applied(stage, late, { outcome: "stale" });
      const again = creation({ subscription, created: created - 10 });
      await applied(stage, again, { outcome: "stale" });
      assertEquals(await stateOf(stage, subscription), ["past_due", "new"]);
    },
  },
  {
    row: 52,
    input: "two events of one second, either order",
    check: async (stage) => {
      const created = unixNow() - 60;
      for (const order of [[0, 1], [1, 0]]) {
        const subscription = uniqueId("sub");
        const first = { subscription, created: created - 1, plan: "one" };
        await applied(stage, creation(first));
        const updates = [
          moves(subscription, { created, from: "one", to: "two" }),
          moves(subscription, { created, from: "two", to: "three" }),
        ];
        for (const place of order) {
          await send200(stage, updates[place]!);
        }
        assertEquals(await stateOf(stage, subscription), ["active", "three"]);

        const last = [
          update({ subscription, created: created + 1, plan: "four" }),
          deletion({ subscription, created: created + 1 }),
        ];
        for (const place of order) await send200(stage, last[place]!);
        assertEquals(await stateOf(stage, subscription), ["canceled", "four"]);
      }
    },
  },
  {
    row: 53,
    input: "an update after the deletion",
    check: async (stage) => {
      const subscription = uniqueId("sub");
      const created = unixNow() - 60;
      await applied(stage, creation({ subscription, created }));
      await applied(stage, deletion({ subscription, created: created + 20 }));
      const late = { created: created + 10, status: "active", plan: "late" };
      await applied(stage, update({ subscription, ...late }));
      assertEquals(await stateOf(stage, subscription), ["canceled", "late"]);
      const newer = { created: created + 30, status: "active", plan: "newer" };
      await applied(stage, update({ subscription, ...newer }));
      assertEquals(await stateOf(stage, subscription), ["active", "newer"]);
    },
  },
  {
    row: 54,
    input: "an event for a subscription that is not there",
    check: async (stage) => {
      const subscription = uniqueId("sub");
      const created = unixNow() - 60;
      const events = [
        update({ subscription, created: created + 1 }),
        failedInvoice({ subscription, created: created + 2 }),
        deletion({ subscription, created: created + 3 }),
      ];
      for (const event of events) {
        await filed(stage, event, { ...UNKNOWN, as: event.id });
        assertEquals(await stateOf(stage, subscription), [
          undefined,
          undefined,
        ]);
      }
      await applied(stage, creation({ subscription, created }));
      for (const event of events) {
        const { failures } = await applied(stage, event);
        assertEquals(failures.length, 1);
        assert(failures[0]?.resolved_at instanceof Date);
      }
      assertEquals((await stateOf(stage, subscription))[0], "canceled");
    },
  },
  {
    row: 55,
    input: "provider B's event for provider A's subscription",
    check: async (stage) => {
      const { hex, sql } = stage;
      const event = creation({ account: "acc_a" });
      await applied(stage, event);
      const subscription = event.data.object.id;
      const before = await subscriptionRecord(sql, subscription);
      const later = { subscription, created: unixNow() + 10 };
      const events = [
        creation({ ...later, account: "acc_b" }),
        update({ ...later, status: "taken_over" }),
        failedInvoice(later),
        deletion(later),
      ];
      for (const foreign of events) {
        await expectFiled(stage, {
          ...OF_OTHER,
          receiver: hex.receiver,
          send: signed(hex, foreign),
          as: foreign.id,
        });
      }
      assertEquals(await subscriptionRecord(sql, subscription), before);

      // The same event ID from another provider is another event.
      const same = edited(creation(), { id: event.id });
      assertAnswer(await signed(hex, same)(), 200);
      const { ledger } = await storedEvent(sql, event.id);
      assertEquals(ledger.map(({ provider }) => provider).sort(), ["a", "b"]);
    },
  },
  {
    row: 56,
    input: "committed, but the reply was lost",
    check: async (stage) => {
      const subscription = uniqueId("sub");
      await applied(stage, creation({ subscription }));
      const change = update({ subscription, plan: "changed" });
      await goneBeforeTheAnswer(stage, change);
      await applied(stage, change);
      assertEquals((await stateOf(stage, subscription))[1], "changed");

      const invoice = failedInvoice({ subscription });
      await lostBeforeTheReceiver(stage, invoice);
      const { notifications } = await applied(stage, invoice);
      assertEquals(notifications.length, 1);
    },
  },
];

/** Checks only that the event is acknowledged. */
async function send200(stage: Stage, event: object): Promise<void> {
  assertAnswer(await signed(stage.stripe, event)(), 200);
}

/** The provider hangs up while its event is applied, and delivers again. */
async function goneBeforeTheAnswer(
  { sql, stripe }: Stage,
  event: { id: string; data: { object: { id: string } } },
): Promise<void> {
  const { receiver } = stripe;
  const body = JSON.stringify(event);
  const headers = headerLines(signedHeaders(stripe, body));
  const isWaiting = async () =>
    (await sql`select from pg_locks where not granted`).length > 0;
  await sql.begin(async (holder) => {
    // The lock of a call that applies an event of the same subscription.
    await holder`
      select pg_advisory_xact_lock(hashtextextended(${event.data.object.id}, 0))`;
    await abandonedRequest(receiver.url, {
      line: `POST ${new URL(receiver.url).pathname}`,
      headers: [...headers, `Content-Length: ${body.length}`],
      body,
    }, {
      after: async () => {
        assert(
          await waitUntil(isWaiting, { timeoutMs: HANG_LIMIT_MS }),
          "It came to nothing",
        );
      },
    });
  });
  const isThere = async () =>
    (await storedEvent(sql, event.id)).ledger.length === 1;
  assert(
    await waitUntil(isThere, { timeoutMs: HANG_LIMIT_MS }),
    "It was not applied",
  );
}

/** The database commits, and no answer of it comes back to the receiver. */
async function lostBeforeTheReceiver(
  { sql, behindFaults, faultyApi }: Stage,
  event: { id: string },
): Promise<void> {
  faultyApi.fails({ billing_apply_events: "reply lost" });
  // To file the failure is to learn that there is none.
  assertAnswer(await signed(behindFaults, event)(), 200);
  assertEquals(faultyApi.calls("billing_apply_events"), 2, "One more try");
  faultyApi.fails({});
  const { ledger, failures } = await storedEvent(sql, event.id);
  assertEquals([ledger.length, failures.length], [1, 0]);
}
