/**
 * An event that meets a lock fails alone, and soon: the others of its call are
 * applied. Calls that meet each other wait for each other, briefly, and never in
 * a circle.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { emptyTables } from "../support/tables.ts";
import {
  apply,
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
  withApp,
  withGate,
} from "./calls.ts";

const LOCKED = "failed 55P03";

/** As many as the receiver sends in a call. */
const TOGETHER = 50;

Deno.test.afterAll(async () => {
  await emptyTables(sql);
  await sql.end();
});

const PLANS = uniqueId("plans");
const idsOf = (events: readonly WireEvent[]) =>
  events.map(({ event_id }) => event_id);
const subscriptionsOf = (events: readonly WireEvent[]) =>
  events.map(({ subscription_id }) => subscription_id);

interface Hold {
  /** Comes before the lock. */
  readonly prepare?: (events: readonly WireEvent[]) => Promise<unknown>;
  readonly lock: (events: readonly WireEvent[]) => Lock;
}

/** What can hold up updates to plan_2. */
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
  "plans are locked, on which an app has a foreign key": {
    lock: () => (holder) =>
      holder`select from ${holder(PLANS)} where id = 'plan_2' for update`,
  },
};

/** An app's table of plans, and a foreign key on it. */
const PLANS_OF_APP = {
  add: `
    create table ${PLANS} (id text primary key);
    insert into ${PLANS} values ('plan_1'), ('plan_2');
    grant select, update on ${PLANS} to service_role;
    alter table billing.subscriptions add constraint ${PLANS}
    foreign key (plan_id) references ${PLANS} not valid;`,
  drop: `table ${PLANS}`,
};

for (const [what, { prepare, lock }] of Object.entries(HOLDS)) {
  for (const every of [50, 5, 2, 1]) {
    Deno.test(`a call of which ${TOGETHER / every} of ${TOGETHER} ${what} applies the others`, async () => {
      const isTouched = (_: unknown, i: number) => i % every === every - 1;
      const events = (await recorded(TOGETHER)).map((id, i) =>
        update(id, { plan_id: isTouched(id, i) ? "plan_2" : "plan_1" })
      );
      const touched = events.filter(isTouched);
      const outcomes = (ofTouched: string, ofOthers: string) =>
        events.map((_, i) => isTouched(_, i) ? ofTouched : ofOthers);
      await prepare?.(touched);
      const said = await withApp(
        PLANS_OF_APP,
        () => whileHeld(lock(touched), () => apply(events)),
      );
      assertEquals(said, outcomes(LOCKED, "applied"));
      assertEquals(await apply(events), outcomes("applied", "duplicate"));
    });
  }
}

for (const table of ["subscriptions", "processed_events", "failed_events"]) {
  Deno.test(`a call does not wait long for ${table} as a whole`, async () => {
    const ids = await recorded(TOGETHER);
    const said = await whileHeld(
      (holder) => holder.unsafe(`lock table billing.${table}`),
      () => apply(ids.map((id) => update(id))),
    );
    assertEquals(said, ids.map(() => LOCKED));
  });
}

Deno.test("waits of several kinds, one after the other, are one wait", async () => {
  const [repeated, elsewhere, ...own] = await recorded(TOGETHER);
  const known = update(repeated!);
  await apply([known]);
  const events = [known, ...[elsewhere!, ...own].map((id) => update(id))];
  const released = Promise.withResolvers<void>();
  const first = whileHeld(lockLedger(known.event_id), () => released.promise);
  const said = await whileHeld(lockSubscriptions(elsewhere!), async () => {
    const call = apply(events);
    await waitsForLock("billing_apply_events");
    setTimeout(released.resolve, 350);
    return await call;
  });
  await first;
  assertEquals(said, ["applied", LOCKED, ...own.map(() => "applied")]);
});

Deno.test("a row that refers to a subscription does not lock it", async () => {
  const [id] = await recorded(1);
  const said = await whileHeld(
    // What a foreign key takes.
    (holder) =>
      holder`select from billing.subscriptions where id = ${id!} for key share`,
    () => apply([update(id!)]),
  );
  assertEquals(said, ["applied"]);
});

Deno.test("what an app checks only at the end of a transaction does not fail the others", async () => {
  const ids = await recorded(5);
  const name = uniqueId("trigger");
  const app = {
    add: `
      create function ${name}() returns trigger language plpgsql as $$
      begin
        raise exception 'Not so';
      end $$;
      create constraint trigger ${name} after update on billing.subscriptions
      deferrable initially deferred for each row when (new.id = '${ids[2]}')
      execute function ${name}();`,
    drop: `function ${name}`,
  };
  const said = await withApp(app, () => apply(ids.map((id) => update(id))));
  assertEquals(
    said,
    ids.map((id) => id === ids[2] ? "failed P0001" : "applied"),
  );
});

async function deadlocks(): Promise<number> {
  const [row] = await sql`
    select deadlocks::int from pg_stat_database
    where datname = current_database()`;
  return row?.["deadlocks"];
}

/**
 * Makes two calls. The first is held when it has updated a subscription, with
 * all that it has locked, until the second waits for a lock.
 */
async function crossing(
  subscription: string,
  ...calls: readonly [WireEvent[], WireEvent[]]
): Promise<string[][]> {
  const before = await deadlocks();
  const said = await withGate(
    `after update on billing.subscriptions
    for each row when (new.id = '${subscription}')`,
    async (open) => {
      const first = apply(calls[0]);
      await waitsForLock("billing_apply_events");
      const second = apply(calls[1]);
      await waitsForLock("billing_apply_events", 2);
      await open();
      return await Promise.all([first, second]);
    },
  );
  assertEquals(await deadlocks(), before);
  return said;
}

Deno.test("two calls that cross do not wait for each other: one is in halves, and the other has its second half", async () => {
  const ids = await recorded(TOGETHER);
  const [held, ...rest] = ids.map((id) => update(id));
  // Refused before anything is written, so the call goes on in halves.
  const refused = update(ids.at(-1)!, { quantity: "x" });
  const contested = rest.slice(24);
  const calls = [
    [held!, ...rest, refused],
    [...contested, update(ids[0]!)],
  ] as [WireEvent[], WireEvent[]];
  const [first, second] = await crossing(ids[0]!, ...calls) as [
    string[],
    string[],
  ];
  assertEquals(first.splice(0, 25), Array(25).fill("applied"));
  assertEquals(first.pop(), "failed 22P02");
  for (const said of [...first, ...second]) {
    assert(["applied", "duplicate", LOCKED].includes(said), said);
  }
  contested.forEach((_, i) =>
    assert(first[i] !== "applied" || second[i] !== "applied")
  );
  for (
    const said of (await Promise.all(calls.map((call) => apply(call)))).flat()
  ) {
    assert(["applied", "duplicate", "failed 22P02"].includes(said), said);
  }
});

Deno.test("two calls that cross do not wait for each other: one has a subscription that the other wants at its end", async () => {
  const [early, late] = await recorded(2);
  const said = await crossing(
    late!,
    // What names no account comes last, whatever its id.
    [
      update(late!),
      creation({ subscription_id: early!, account_id: null }),
    ],
    [update(early!), update(late!)],
  );
  assertEquals(said, [["applied", LOCKED], ["applied", "applied"]]);
});
