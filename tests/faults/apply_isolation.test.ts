/**
 * An event that meets a lock fails alone, and soon. Calls that meet each other wait for
 * each other, briefly, and never in a circle.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { assertEquals } from "@std/assert";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { startReceiver } from "../support/functions.ts";
import { eventually } from "../support/hang_limit.ts";
import { deliver } from "../support/send.ts";
import {
  apply,
  callWhileHeld,
  creation,
  file,
  type Lock,
  lockFailures,
  lockLedger,
  lockSubscriptions,
  recorded,
  sql,
  update,
  waitsForLock,
  whileHeld,
  type WireEvent,
  withGate,
} from "./calls.ts";

const LOCKED = "failed 55P03";

/** As many as the receiver sends in a call. */
const TOGETHER = 50;

const idsOf = (events: readonly WireEvent[]) =>
  events.map(({ event_id }) => event_id);
const subscriptionsOf = (events: readonly WireEvent[]) =>
  events.map(({ subscription_id }) => subscription_id);

interface Hold {
  readonly prepare?: (events: readonly WireEvent[]) => Promise<unknown>;
  readonly lock: (events: readonly WireEvent[]) => Lock;
}

const HOLDS: Record<string, Hold> = {
  "records are locked": {
    lock: (events) => (holder) =>
      holder`
        update billing.subscriptions set account_id = account_id
        where id = any (${subscriptionsOf(events)})`,
  },
  "failures are locked": {
    prepare: (events) => file(...idsOf(events)),
    lock: (events) => lockFailures(...idsOf(events)),
  },
  "rows of the ledger are being deleted": {
    prepare: (events) => apply(events),
    lock: (events) => lockLedger(...idsOf(events)),
  },
  "subscriptions are those of another call": {
    lock: (events) => lockSubscriptions(...subscriptionsOf(events)),
  },
};

for (const [what, { prepare, lock }] of Object.entries(HOLDS)) {
  Deno.test(`a call of which every second of ${TOGETHER} ${what} applies the others`, async () => {
    const events = (await recorded(TOGETHER)).map((id) => update(id));
    const touched = events.filter((_, i) => i % 2);
    const expected = (ofTouched: string, ofOthers: string) =>
      events.map((_, i) => i % 2 ? ofTouched : ofOthers);
    await prepare?.(touched);

    const outcomes = await whileHeld(lock(touched), () => apply(events));
    assertEquals(outcomes, expected(LOCKED, "applied"));
    assertEquals(await apply(events), expected("applied", "duplicate"));
  });
}

Deno.test("waits for other calls, one after the other, are one wait", async () => {
  // On a busy machine, some tries are too late.
  await eventually(async () => {
    const [first, second] = await recorded(2) as [string, string];
    return await whileHeld(lockSubscriptions(second), async () => {
      let released = 0;
      const outcomes = await callWhileHeld(
        lockSubscriptions(first),
        () => apply([update(first), update(second)]),
        async () => {
          await waitsForLock("billing_apply_events");
          await sleep(350);
          released = performance.now();
        },
      );
      return `${outcomes}` === `applied,${LOCKED}` &&
        performance.now() - released < 400;
    });
  });
});

Deno.test("an event that took too long holds up no other the next time", async () => {
  await using receiver = await startReceiver();
  const send = (subscription: string) =>
    deliver(
      receiver.url,
      subscriptionEvent("customer.subscription.updated", { subscription }),
    ).then(({ status }) => status);
  const [slow = "", ...others] = await recorded(11);
  const gate = `after update on billing.subscriptions
    for each row when (new.id = '${slow}')`;

  await withGate(gate, async () => assertEquals(await send(slow), 503));

  await eventually(() =>
    withGate(gate, async (open) => {
      const again = send(slow);
      await waitsForLock("billing_apply_events");

      const began = performance.now();
      const statuses = await Promise.all(others.map(send));
      const tookMs = performance.now() - began;

      await open();
      await again;
      // Its call ends after 3 s.
      return tookMs < 2_000 && statuses.every((status) => status === 200);
    })
  );
});

Deno.test("a creation without an account waits as long as others", async () => {
  await sql`
    insert into billing.customers (provider, customer_id, account_id)
    values ('a', 'cus_1', 'acc_1')`;
  const unnamed = creation({
    account_id: null,
    report: { plan_id: "plan_1", customer_id: "cus_1" },
  });
  await eventually(async () => {
    const outcomes = await callWhileHeld(
      lockSubscriptions(unnamed.subscription_id),
      () => apply([unnamed]),
      async () => {
        await waitsForLock("billing_apply_events");
        await sleep(100);
      },
    );
    return `${outcomes}` === "applied";
  });
});

Deno.test("a row that refers to a subscription does not lock it", async () => {
  const [id] = await recorded(1);
  const outcomes = await whileHeld(
    // A foreign key takes this lock.
    (holder) =>
      holder`select from billing.subscriptions where id = ${id!} for key share`,
    () => apply([update(id!)]),
  );
  assertEquals(outcomes, ["applied"]);
});

Deno.test("checkouts are locked in one order", async () => {
  const customers = await sql<{ id: string; lock: string }[]>`
    select id, billing.customer_group_lock('a', id)::text as lock
    from unnest(array['cus_1', 'cus_2', 'cus_3', 'cus_4']) as id
    order by billing.customer_group_lock('a', id)`;
  const checkouts = customers.toReversed().map(({ id }) =>
    creation({
      type: "checkout.session.completed",
      kind: "checkout",
      subscription_id: "",
      report: { customer_id: id },
    })
  );
  const [first, ...others] = customers.map(({ lock }) => lock);

  await sql.begin(async (holder) => {
    await holder`select pg_advisory_xact_lock(${first!})`;
    const calling = apply(checkouts);
    await waitsForLock("public.billing_apply_events");

    const held = await holder`
      select from unnest(${others}::bigint[]) as lock
      where not pg_try_advisory_xact_lock(lock)`;
    assertEquals(held.length, 0);
    await calling;
  });
});
