/** Grants beside events of both providers, and erasures. */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { caseCount, checkProperty } from "../support/random.ts";
import { connect } from "../support/tables.ts";
import { type AnyEvent, anyEvents, rowsOf, wireOf } from "./any_event.ts";

const EVENTS_PER_CALL = 3;
const MOST_CALLS = 5;

const sql = connect(2);
Deno.test.afterAll(() => sql.end());

/** What comes before a call. */
const deed = fc.constantFrom("grant", "grant", "end", "erase", "none");
type Deed = typeof deed extends fc.Arbitrary<infer T> ? T : never;

/** Returns the grants to accounts with a prefix, by ID. */
async function grantsOf(prefix: string) {
  const rows = await sql<{ id: string; account: string; row: unknown }[]>`
    select s.id, s.account_id as account, jsonb_build_array(to_jsonb(s), to_jsonb(g)) as row
    from billing.subscriptions s left join billing.grants g on g.subscription_id = s.id
    where s.provider = 'manual' and starts_with(s.account_id, ${prefix})`;
  return new Map(rows.map((row) => [row.id, row]));
}

/**
 * Delivers events in calls, with a deed before each, and checks that only deeds changed the
 * grants. Returns the other rows.
 */
async function leftBy(events: readonly AnyEvent[], deeds: readonly Deed[]) {
  const prefix = crypto.randomUUID().slice(0, "00000000-0000".length);
  let grants: Awaited<ReturnType<typeof grantsOf>> = new Map();
  const ended = new Set<string>();
  const newest = () => [...grants.keys()].at(-1);

  async function act(deed: Deed, account: string): Promise<void> {
    let id = newest();
    if (deed === "erase") {
      await sql`select billing.erase_account(${account}, force => true)`;
      grants = new Map([...grants].filter(([, it]) => it.account !== account));
    } else if (deed === "end" && id && !ended.has(id)) {
      await sql`select billing.end_grant(${id}, 'a test')`;
      ended.add(id);
      grants.set(id, (await grantsOf(prefix)).get(id)!);
    } else if (deed === "grant") {
      const [row] = await sql`
        select billing.grant_plan(${account}, 'gift', reason => 'a test') as id`;
      id = row!["id"] as string;
      grants.set(id, (await grantsOf(prefix)).get(id)!);
    }
  }

  async function deliver(i: number): Promise<void> {
    const sent = events.slice(i, i + EVENTS_PER_CALL)
      .map((event, j) => wireOf(event, { prefix, i: i + j }));
    // The same events, as if the grant were their subscription.
    const grant = newest();
    const aimed = sent
      .filter(({ subscription_id }) => subscription_id && grant)
      .map((event) => ({
        ...event,
        event_id: `${event.event_id}_aimed`,
        subscription_id: grant!,
      }));
    const all = [...sent, ...aimed].map((event, place) => ({
      ...event,
      place,
    }));
    await sql`select public.billing_apply_events(${sql.json(all)})`;
  }

  for (let i = 0; i < events.length; i += EVENTS_PER_CALL) {
    await act(deeds[i / EVENTS_PER_CALL]!, `${prefix}_acc${events[i]!.of}`);
    await deliver(i);
  }

  assertEquals(await grantsOf(prefix), grants);
  return await rowsOf(prefix, sql);
}

Deno.test("no event changes a grant, and no grant changes what events leave", async () => {
  const property = fc.asyncProperty(
    anyEvents,
    fc.array(deed, { minLength: MOST_CALLS, maxLength: MOST_CALLS }),
    async (events, deeds) => {
      const erasures = deeds.map((deed) => deed === "erase" ? deed : "none");
      const left = [leftBy(events, deeds), leftBy(events, erasures)];
      assertEquals(...await Promise.all(left) as [string, string]);
    },
  );
  await checkProperty(property, { numRuns: caseCount(200) });
});
