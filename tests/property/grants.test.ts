/** Grants beside events of both providers, imports, reconciles and erasures. */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { invoiceEvent } from "../../scripts/events/templates.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { fix } from "../../scripts/reconcile.ts";
import { importPages } from "../../scripts/stripe_sync/apply.ts";
import { findDifferences } from "../../scripts/stripe_sync/find_differences.ts";
import type { Page } from "../../scripts/stripe_sync/stripe_source.ts";
import {
  createStripeAccount,
  serveStripeApi,
  testContext,
} from "../stripe_sync/stand_in.ts";
import { caseCount, checkProperty } from "../support/random.ts";
import { connect } from "../support/tables.ts";
import { type AnyEvent, anyEvents, rowsOf, wireOf } from "./any_event.ts";

const EVENTS_PER_CALL = 3;
const MOST_CALLS = 5;
const MOSTLY_NONE = Array<"none">(13).fill("none");

const sql = connect(2);
Deno.test.afterAll(() => sql.end());

/** What comes before a call; an import or reconcile also beside it. */
const step = fc.record({
  deed: fc.constantFrom("grant", "grant", "end", "erase", "none"),
  sync: fc.constantFrom("import", "import", "reconcile", ...MOSTLY_NONE),
});
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** Returns the grants to accounts with a prefix, by ID. */
async function grantsOf(prefix: string) {
  const rows = await sql<{ id: string; account: string; row: unknown }[]>`
    select s.id, s.account_id as account, jsonb_build_array(to_jsonb(s), to_jsonb(g)) as row
    from billing.subscriptions s left join billing.grants g on g.subscription_id = s.id
    where s.provider = 'manual' and starts_with(s.account_id, ${prefix})`;
  return new Map(rows.map((row) => [row.id, row]));
}

/**
 * Imports or reconciles subscriptions that are as an event might leave them, each with an
 * event that was not delivered.
 */
async function runSync(
  sync: Step["sync"],
  { of, at, status, namesAccount, isWhole }: AnyEvent,
  { prefix, i, grant }: {
    prefix: string;
    i: number;
    grant: string | undefined;
  },
): Promise<void> {
  if (sync === "none") return;

  const second = 1.6e9 + (at ?? i);
  const ids = [0, 1, 2].filter((one) => isWhole || one !== of)
    .map((one) => `${prefix}_sub${one}`);
  // As if the grant were a subscription there.
  if (grant) ids.push(grant);

  const account = createStripeAccount(ids.length, (j) => ({
    subscription: ids[j]!,
    account: namesAccount ? `${prefix}_acc${j}` : null,
    customer: `${prefix}_cus${Math.min(j, 1)}`,
    plan: `plan_${i}`,
    status,
  }));
  for (const subscription of ids) {
    const id = `${prefix}_${i}_${subscription}`;
    const about = { id, subscription, created: second };
    const event = isWhole
      ? subscriptionEvent("customer.subscription.deleted", about)
      : invoiceEvent(about);
    account.events.set(id, event);
  }

  await using api = serveStripeApi(account);
  // Its records are all that reconcile compares.
  const context = testContext(api.url, { provider: `${prefix}_a` as "a" });
  // Dates corrections among the events, however long an answer takes.
  async function* dated(pages: AsyncIterable<Page>) {
    for await (const page of pages) {
      yield { ...page, askedAtSeconds: second + 6 };
    }
  }

  const { subscriptions, someSubscriptions } = context.stripe;
  Object.assign(context.stripe, {
    subscriptions: () => dated(subscriptions()),
    someSubscriptions: (ids: string[]) => dated(someSubscriptions(ids)),
  });
  if (sync === "import") {
    await importPages(context.stripe.subscriptions(), context);
  } else {
    await fix(await findDifferences(context), context);
  }
}

/**
 * Delivers events in calls, with a step for each, and checks that only deeds changed the
 * grants. Returns the other rows.
 */
async function leftBy(
  events: readonly AnyEvent[],
  steps: readonly Step[],
  isAtOnce: boolean,
) {
  const prefix = crypto.randomUUID().slice(0, "00000000-0000".length);
  let grants: Awaited<ReturnType<typeof grantsOf>> = new Map();
  const ended = new Set<string>();
  const newest = () => [...grants.keys()].at(-1);

  async function act(deed: Step["deed"], account: string): Promise<void> {
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
    const sent = events.slice(i, i + EVENTS_PER_CALL).map((event, j) => {
      const wire = wireOf(event, { prefix, i: i + j });
      return { ...wire, provider: `${prefix}_${wire.provider}` };
    });
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
    const { deed, sync } = steps[i / EVENTS_PER_CALL]!;
    const event = events[i]!;
    await act(deed, `${prefix}_acc${event.of}`);
    const synced = runSync(sync, event, { prefix, i, grant: newest() });
    if (!isAtOnce) await synced;
    await Promise.all([synced, deliver(i)]);
  }

  assertEquals(await grantsOf(prefix), grants);
  return await rowsOf(prefix, sql);
}

Deno.test("no event, import or reconcile changes a grant, and no grant changes what they leave", async () => {
  const property = fc.asyncProperty(
    anyEvents,
    fc.array(step, { minLength: MOST_CALLS, maxLength: MOST_CALLS }),
    fc.boolean(),
    async (events, steps, isAtOnce) => {
      const erasures = steps.map((step) =>
        step.deed === "erase" ? step : { ...step, deed: "none" as const }
      );
      const left = leftBy(events, steps, isAtOnce);
      // At once, what an import corrects depends on which of them comes first.
      const expected = isAtOnce ? left : leftBy(events, erasures, false);
      assertEquals(...await Promise.all([left, expected]));
    },
  );
  await checkProperty(property, { numRuns: caseCount(200) });
});
