import postgres from "postgres";
import { subscriptionEvent } from "../scripts/events/subscription_event.ts";
import { ONE_PER_CALL } from "./names.ts";
import { subscriptionIds } from "./requests.ts";
import { stripeId } from "./stripe_ids.ts";
import { wireEvent } from "./targets.ts";

/** How the SQL function is called. */
export interface Calls {
  /** How many events per call. */
  readonly together: number;
  readonly connections: number;
}

/** As many connections as get the most out of two cores. */
export const CEILINGS: Readonly<Record<string, Calls>> = {
  [ONE_PER_CALL]: { together: 1, connections: 8 },
  "the SQL function, 50 events per call": { together: 50, connections: 2 },
};

/** Measures for some seconds; returns events per second. */
export type MeasureCeiling = (
  calls: Calls,
  options: { readonly seconds: number },
) => Promise<number>;

/**
 * Creates subscriptions, and returns what measures updates of them through
 * `billing_apply_events` straight in Postgres, with nothing between but the
 * driver: what any receiver could reach at most.
 *
 * @throws {Error} While measuring, if an event is not applied.
 */
export async function prepareSqlCeiling(
  databaseUrl: string,
): Promise<MeasureCeiling> {
  const subscriptions = subscriptionIds();
  await applyCreations(databaseUrl, subscriptions);
  const nextUpdates = updatesOf(subscriptions);
  return async ({ together, connections }, { seconds }) => {
    const sql = postgres(databaseUrl, { max: connections });
    let applied = 0;
    try {
      await sql`select 1`;
      const began = performance.now();
      const end = began + seconds * 1000;
      await Promise.all(Array.from({ length: connections }, async () => {
        while (performance.now() < end) {
          await applyAll(sql, nextUpdates(together));
          applied += together;
        }
      }));
      return applied / ((performance.now() - began) / 1000);
    } finally {
      await sql.end();
    }
  };
}

async function applyCreations(
  databaseUrl: string,
  subscriptions: readonly string[],
): Promise<void> {
  const sql = postgres(databaseUrl, { max: 1 });
  const events = subscriptions.map((subscription) =>
    subscriptionEvent("customer.subscription.created", {
      subscription,
      created: 1_750_000_000,
    })
  ).map(wireEvent);
  try {
    await applyAll(sql, events);
  } finally {
    await sql.end();
  }
}

/**
 * Returns what makes the next updates. They go through the subscriptions again
 * and again, a second later each time, so no update is stale.
 */
function updatesOf(
  subscriptions: readonly string[],
): (count: number) => object[] {
  const template = wireEvent(
    subscriptionEvent("customer.subscription.updated", {
      previous: { status: "trialing" },
    }),
  );
  const start = Math.floor(Date.now() / 1000) - 3600;
  let made = 0;
  return (count) =>
    Array.from({ length: count }, (_, place) => {
      const i = made++;
      const created = start + Math.floor(i / subscriptions.length);
      return {
        ...template,
        place: place + 1,
        event_id: stripeId("evt", created),
        subscription_id: subscriptions[i % subscriptions.length],
        occurred_at: new Date(created * 1000).toISOString(),
      };
    });
}

/** A stale update, for example, costs less than one that is applied. */
async function applyAll(
  sql: postgres.Sql,
  events: readonly object[],
): Promise<void> {
  const rows = await sql<{ outcome: string }[]>`
    select place, outcome
    from public.billing_apply_events(${sql.json(events as never)})`;
  const applied = rows.filter(({ outcome }) => outcome === "applied").length;
  if (applied !== events.length) {
    throw new Error(
      `Cannot measure: the SQL function applied ${applied} of ${events.length} events`,
    );
  }
}
