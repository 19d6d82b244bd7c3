import postgres from "postgres";
import { subscriptionEvent } from "../scripts/events/event.ts";
import { stripeId } from "./stripe_ids.ts";
import { wireEvent } from "./targets.ts";

/** The time of the next run's first event: no run has older ones. */
let nextCreated = Math.floor(Date.now() / 1000) - 3600;

/**
 * Events a second through `apply_billing_events` straight in Postgres, with
 * nothing between but the driver: what any receiver could reach at most.
 *
 * @param options.together How many events a call.
 */
export async function measureSqlCeiling(
  databaseUrl: string,
  { seconds, subscriptions, connections, together }: {
    seconds: number;
    subscriptions: readonly string[];
    connections: number;
    together: number;
  },
): Promise<number> {
  const template = wireEvent(
    subscriptionEvent("customer.subscription.updated", {
      previous: { status: "trialing" },
    }),
  );
  const start = nextCreated;
  let sent = 0;
  const batch = () =>
    Array.from({ length: together }, () => {
      const i = sent++;
      const created = start + Math.floor(i / subscriptions.length);
      return {
        ...template,
        event_id: stripeId("evt", created),
        subscription_id: subscriptions[i % subscriptions.length],
        created: new Date(created * 1000).toISOString(),
      };
    });
  const sql = postgres(databaseUrl, { max: connections });
  try {
    await sql`select 1`;
    const began = performance.now();
    const end = began + seconds * 1000;
    await Promise.all(Array.from({ length: connections }, async () => {
      while (performance.now() < end) {
        const rows = await sql<{ outcome: string }[]>`
          select place, outcome
          from public.apply_billing_events(${sql.json(batch() as never)})`;
        // A stale update, for example, costs less than one that is applied.
        const applied = rows.filter(({ outcome }) => outcome === "applied");
        if (applied.length !== together) {
          throw new Error(
            `Cannot measure: the SQL function applied ${applied.length} of ${together} events`,
          );
        }
      }
    }));
    nextCreated += Math.ceil(sent / subscriptions.length);
    return sent / ((performance.now() - began) / 1000);
  } finally {
    await sql.end();
  }
}
