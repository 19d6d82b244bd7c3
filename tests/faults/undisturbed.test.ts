/**
 * Deliveries over HTTP while many events beside them meet locks: each event that
 * meets none is acknowledged, and soon.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import type { TransactionSql } from "postgres";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { startReceiver } from "../support/receiver.ts";
import { deliver } from "../support/send.ts";
import { emptyTables } from "../support/tables.ts";
import {
  foreignKey,
  lockRecords,
  lockSubscriptions,
  sql,
  whileHeld,
  withApp,
} from "./calls.ts";

const TOUCHED = 50;
const OTHERS = 100;
/** It is 3 s; the rest is for a machine that is slow or busy. */
const LATEST_MS = 8_000;

const plans = uniqueId("plans");
const receiver = await startReceiver();
Deno.test.afterAll(async () => {
  await receiver[Symbol.asyncDispose]();
  await emptyTables(sql);
  await sql.end();
});

const LOCKS: Readonly<
  Record<
    string,
    (ids: string[]) => (holder: TransactionSql) => Promise<unknown>
  >
> = {
  "their records are locked": (ids) => lockRecords(...ids),
  "another call has their subscriptions": (ids) => lockSubscriptions(...ids),
  "an app's foreign key holds them up": () => (holder) =>
    holder`select from ${holder(plans)} where id = 'plan_2' for update`,
};

for (const [what, lock] of Object.entries(LOCKS)) {
  Deno.test(`${OTHERS} events beside ${TOUCHED} are acknowledged while ${what}`, async () => {
    const touched = Array.from({ length: TOUCHED }, () => uniqueId("sub"));
    const created = (subscription: string) =>
      subscriptionEvent("customer.subscription.created", {
        subscription,
        plan: "plan_1",
      });
    const updates = touched.map((subscription) =>
      subscriptionEvent("customer.subscription.updated", {
        subscription,
        plan: "plan_2",
      })
    );
    const others = Array.from(
      { length: OTHERS },
      () => created(uniqueId("sub")),
    );
    const send = async (event: object) => {
      const began = performance.now();
      const { status } = await deliver(receiver.url, event);
      return { status, tookMs: performance.now() - began };
    };
    await Promise.all(touched.map((id) => send(created(id))));
    await withApp(
      foreignKey(plans),
      () =>
        whileHeld(lock(touched), async () => {
          const [refused, answers] = await Promise.all(
            [updates, others].map((events) => Promise.all(events.map(send))),
          );
          const statuses = (of: typeof answers) => [
            ...new Set(of!.map(({ status }) => status)),
          ];
          assertEquals([statuses(refused), statuses(answers)], [[503], [200]]);
          const slowest = Math.max(...answers!.map(({ tookMs }) => tookMs));
          assertEquals(slowest < LATEST_MS, true, `${slowest} ms`);
          console.log(`${what}: ${Math.round(slowest)} ms at most`);
        }),
    );
  });
}
