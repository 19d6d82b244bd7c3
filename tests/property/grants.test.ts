/** Grants beside events of both providers and erasures of their accounts. */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { caseCount, checkProperty } from "../support/random.ts";
import { connect } from "../support/tables.ts";
import { type AnyEvent, anyEvents, rowsOf, wireOf } from "./any_event.ts";

const EVENTS_PER_CALL = 3;

const sql = connect(1);
Deno.test.afterAll(() => sql.end());

/** Returns the grants to accounts with a prefix, by ID. */
async function grantsOf(prefix: string) {
  const rows = await sql<{ id: string; account: string; row: unknown }[]>`
    select s.id, s.account_id as account, jsonb_build_array(to_jsonb(s), to_jsonb(g)) as row
    from billing.subscriptions s left join billing.grants g on g.subscription_id = s.id
    where s.provider = 'manual' and starts_with(s.account_id, ${prefix})`;
  return new Map(rows.map((row) => [row.id, row]));
}

/**
 * Delivers events with a deed before each call, and checks that only deeds changed the
 * grants. Returns the other rows.
 */
async function leftBy(events: readonly AnyEvent[], deeds: readonly string[]) {
  const prefix = crypto.randomUUID();
  let grants: Awaited<ReturnType<typeof grantsOf>> = new Map();

  for (let i = 0; i < events.length; i += EVENTS_PER_CALL) {
    const account = `${prefix}_acc${events[i]!.of}`;
    let id = [...grants.keys()].at(-1);

    if (deeds[i] === "erase") {
      await sql`select billing.erase_account(${account}, force => true)`;
      grants = new Map([...grants].filter(([, it]) => it.account !== account));
    } else if (deeds[i] === "end" && id) {
      // Fails if it has ended.
      await sql`select billing.end_grant(${id}, 'a test')`.catch(() => {});
      grants.set(id, (await grantsOf(prefix)).get(id)!);
    } else if (deeds[i] === "grant") {
      const [row] = await sql`
        select billing.grant_plan(${account}, 'gift', reason => 'a test') as id`;
      id = row!["id"] as string;
      grants.set(id, (await grantsOf(prefix)).get(id)!);
    }

    const sent = events.slice(i, i + EVENTS_PER_CALL)
      .map((event, j) => wireOf(event, { prefix, i: i + j }));
    // The same events, as if the grant were their subscription.
    const aimed = sent
      .filter(({ subscription_id }) => subscription_id && grants.has(id!))
      .map((event) => ({
        ...event,
        event_id: `${event.event_id}_aimed`,
        subscription_id: id!,
      }));
    const all = [...sent, ...aimed].map((event, place) => ({
      ...event,
      place,
    }));
    await sql`select public.billing_apply_events(${sql.json(all)})`;
  }

  assertEquals(await grantsOf(prefix), grants);
  return await rowsOf(prefix, sql);
}

Deno.test("no event changes a grant, and no grant changes what events leave", async () => {
  const deed = fc.constantFrom("grant", "grant", "end", "erase", "none");
  const property = fc.asyncProperty(
    anyEvents,
    fc.array(deed, { minLength: 15, maxLength: 15 }),
    async (events, deeds) => {
      const erasures = deeds.map((deed) => deed === "erase" ? deed : "none");
      assertEquals(await leftBy(events, deeds), await leftBy(events, erasures));
    },
  );
  await checkProperty(property, { numRuns: caseCount(200) });
});
