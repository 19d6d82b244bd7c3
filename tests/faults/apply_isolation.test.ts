/**
 * What one event of a call cannot have, because of a lock or an error, fails
 * that event alone, and soon: the others of the call are applied.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { waitUntil } from "../../scripts/common/wait_until.ts";
import { HANG_LIMIT_MS } from "../support/hang_limit.ts";
import { emptyTables } from "../support/tables.ts";
import { failureOf } from "../support/triage.ts";
import {
  apply,
  creation,
  file,
  foreignKey,
  lockFailures,
  lockLedger,
  lockRecords,
  lockSubscriptions,
  recorded,
  sql,
  update,
  waitsForLock,
  whileHeld,
  withApp,
} from "./calls.ts";

const LOCKED = "failed 55P03";

/** As many as the receiver sends in a call. */
const TOGETHER = 50;

Deno.test.afterAll(async () => {
  await emptyTables(sql);
  await sql.end();
});

/** The outcomes of a call in which these are touched, and the others are not. */
function outcomes(touched: readonly boolean[], failed = LOCKED): string[] {
  return touched.map((isTouched) => isTouched ? failed : "applied");
}

for (const share of [1, 10, 25, TOGETHER]) {
  const touched = Array.from(
    { length: TOGETHER },
    (_, i) => Math.floor((i + 1) * share / 50) > Math.floor(i * share / 50),
  );
  const those = <T>(items: readonly T[]) => items.filter((_, i) => touched[i]);

  Deno.test(`a call with ${share} of ${TOGETHER} records locked applies the others`, async () => {
    const ids = await recorded(TOGETHER);
    const said = await whileHeld(
      lockRecords(...those(ids)),
      () => apply(ids.map((id) => update(id))),
    );
    assertEquals(said, outcomes(touched));
  });

  Deno.test(`a call with ${share} of ${TOGETHER} failures locked applies the others`, async () => {
    const events = (await recorded(TOGETHER)).map((id) => update(id));
    const failed = those(events).map((event) => event.event_id);
    await file(...failed);
    const said = await whileHeld(lockFailures(...failed), () => apply(events));
    assertEquals(said, outcomes(touched));
    assertEquals(
      await apply(events),
      touched.map((isTouched) => isTouched ? "applied" : "duplicate"),
    );
  });

  Deno.test(`a call of which another one has ${share} of ${TOGETHER} subscriptions applies the others`, async () => {
    const ids = await recorded(TOGETHER);
    const said = await whileHeld(
      lockSubscriptions(...those(ids)),
      () => apply(ids.map((id) => update(id))),
    );
    assertEquals(said, outcomes(touched));
  });

  Deno.test(`a call with ${share} of ${TOGETHER} rows of the ledger locked applies the others`, async () => {
    const ids = await recorded(TOGETHER);
    const events = ids.map((id) => update(id));
    await apply(those(events));
    const locked = those(events).map((event) => event.event_id);
    const said = await whileHeld(lockLedger(...locked), () => apply(events));
    assertEquals(said, outcomes(touched));
    assertEquals(
      await apply(events),
      touched.map((isTouched) => isTouched ? "applied" : "duplicate"),
    );
  });

  Deno.test(`a call of which an app's foreign keys hold up ${share} of ${TOGETHER} events applies the others`, async () => {
    const ids = await recorded(TOGETHER);
    const table = uniqueId("plans");
    const said = await withApp(foreignKey(table), () =>
      whileHeld(
        (holder) =>
          holder`select from ${holder(table)} where id = 'plan_2' for update`,
        () =>
          apply(
            ids.map((id, i) =>
              update(id, { plan_id: touched[i] ? "plan_2" : "plan_1" })
            ),
          ),
      ));
    assertEquals(said, outcomes(touched));
  });
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
  const [repeated, elsewhere, waiting, ...own] = await recorded(TOGETHER);
  const known = update(repeated!);
  await apply([known]);
  const events = [known, ...[elsewhere!, ...own].map((id) => update(id))];
  const released = Promise.withResolvers<void>();
  const first = whileHeld(
    lockLedger(known.event_id),
    () => released.promise,
  );
  const said = await whileHeld(
    lockSubscriptions(elsewhere!),
    async () => {
      const call = apply([...events, update(waiting!)]);
      await waitsForLock("billing_apply_events");
      setTimeout(released.resolve, 350);
      return await call;
    },
  );
  await first;
  assertEquals(said, [
    "applied",
    LOCKED,
    ...own.map(() => "applied"),
    "applied",
  ]);
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

Deno.test("a duplicate whose failure is locked is a duplicate", async () => {
  const event = creation();
  await apply([event]);
  await sql`
    insert into billing.failed_events (
      provider, event_id, payload, payload_encoding, error_code, error
    ) values ('a', ${event.event_id}, '{}', 'json', 'x', 'x')`;
  assertEquals(
    await whileHeld(lockFailures(event.event_id), () => apply([event])),
    ["duplicate"],
  );
  assertEquals((await failureOf(sql, event.event_id)).resolution, null);
  assertEquals(await apply([event]), ["duplicate"]);
  assertEquals((await failureOf(sql, event.event_id)).resolution, "duplicate");
});

/** A trigger of an app that does something at one subscription. */
function trigger(id: string, does: string, kind = "trigger") {
  const name = uniqueId("trigger");
  const [when, each] = kind === "trigger"
    ? ["before", ""]
    : ["after", "deferrable initially deferred"];
  return {
    add: `
      create function ${name}() returns trigger language plpgsql as $$
      begin
        if new.id = '${id}' then ${does}; end if;
        return new;
      end $$;
      create ${kind} ${name} ${when} update on billing.subscriptions ${each}
      for each row execute function ${name}();`,
    remove: `
      drop trigger ${name} on billing.subscriptions;
      drop function ${name}();`,
  };
}

for (
  const code of ["P0001", "40001", "40P01", "08006", "53200", "57P01", "58030"]
) {
  Deno.test(`a trigger that raises ${code} at one event does not fail the others`, async () => {
    const ids = await recorded(5);
    const raises = `raise exception using errcode = '${code}'`;
    const said = await withApp(
      trigger(ids[2]!, raises),
      () => apply(ids.map((id) => update(id))),
    );
    assertEquals(said, outcomes(ids.map((_, i) => i === 2), `failed ${code}`));
  });
}

Deno.test("an assertion of a trigger that does not hold at one event does not fail the others", async () => {
  const ids = await recorded(5);
  const said = await withApp(
    trigger(ids[2]!, "assert false"),
    () => apply(ids.map((id) => update(id))),
  );
  assertEquals(said, outcomes(ids.map((_, i) => i === 2), "failed P0004"));
});

Deno.test("what an app checks only at the end of a transaction does not fail the others", async () => {
  const ids = await recorded(5);
  const said = await withApp(
    trigger(ids[2]!, "raise exception 'Not so'", "constraint trigger"),
    () => apply(ids.map((id) => update(id))),
  );
  assertEquals(said, outcomes(ids.map((_, i) => i === 2), "failed P0001"));
});

async function deadlocks(): Promise<number> {
  const [row] = await sql`
    select deadlocks::int from pg_stat_database
    where datname = current_database()`;
  return row?.["deadlocks"];
}

/**
 * Runs work with a trigger that holds each call which updates a subscription,
 * with all that the call has locked, until the work opens it.
 */
async function withGate<T>(
  id: string,
  work: (open: () => Promise<unknown>) => Promise<T>,
): Promise<T> {
  const gate = uniqueId("gate");
  return await withApp({
    add: `
      create table ${gate} (id text primary key);
      insert into ${gate} values ('${id}');
      grant select on ${gate} to service_role;
      create function ${gate}() returns trigger language plpgsql as $$
      begin
        while exists (select from public.${gate} where id = new.id) loop
          perform pg_sleep(0.001);
        end loop;
        return null;
      end $$;
      create trigger ${gate} after update on billing.subscriptions
      for each row execute function ${gate}();`,
    remove: `
      drop trigger ${gate} on billing.subscriptions;
      drop function ${gate}(); drop table ${gate};`,
  }, () => work(() => sql`delete from ${sql(gate)}`));
}

Deno.test("two calls that cross do not wait for each other: one is in halves, and the other has its second half", async () => {
  const ids = await recorded(TOGETHER);
  const [held, ...rest] = ids.map((id) => update(id));
  const contested = rest.slice(24);
  // Refused before anything is written, so the call goes on in halves.
  const refused = update(ids.at(-1)!, { quantity: "x" });
  const calls = [
    [held!, ...rest, refused],
    [update(ids[0]!), ...contested],
  ] as const;
  const before = await deadlocks();
  const [first, second] = await withGate(ids[0]!, async (open) => {
    const inHalves = apply(calls[0]);
    await isHeld();
    const other = apply(calls[1]);
    await waitsForLock("billing_apply_events");
    await open();
    return await Promise.all([inHalves, other]);
  });
  assertEquals(first!.slice(0, 25), Array(25).fill("applied"));
  assertEquals(first!.at(-1), "failed 22P02");
  const possible = new Set(["applied", "duplicate", LOCKED]);
  for (const [i] of contested.entries()) {
    const said = [first![25 + i]!, second![1 + i]!];
    assertEquals(said.filter((one) => !possible.has(one)), []);
    assertEquals(said.filter((one) => one === "applied").length <= 1, true);
  }
  assertEquals(possible.has(second![0]!), true);
  for (const said of await Promise.all(calls.map((call) => apply(call)))) {
    assertEquals(
      said.filter((one) => !/applied|duplicate|22P02/.test(one)),
      [],
    );
  }
  assertEquals(await deadlocks(), before);
});

Deno.test("two calls that cross do not wait for each other: one has a subscription that the other wants at its end", async () => {
  const [early, late] = await recorded(2);
  const before = await deadlocks();
  const said = await withGate(late!, async (open) => {
    // What names no account comes last, whatever its id.
    const first = apply([
      update(late!),
      creation({ subscription_id: early!, account_id: null }),
    ]);
    await isHeld();
    const second = apply([update(early!), update(late!)]);
    await waitsForLock("billing_apply_events");
    await open();
    return await Promise.all([first, second]);
  });
  assertEquals(said, [["applied", LOCKED], ["applied", "applied"]]);
  assertEquals(await deadlocks(), before);
});

/** Resolves as soon as a call is held by a gate. */
async function isHeld(): Promise<void> {
  await waitUntil(async () => {
    const rows = await sql`
      select from pg_stat_activity
      where wait_event = 'PgSleep' and query ~ 'billing_apply_events'`;
    return rows.length > 0;
  }, { timeoutMs: HANG_LIMIT_MS, intervalMs: 1 });
}
