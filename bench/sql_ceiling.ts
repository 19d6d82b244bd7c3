import postgres from "postgres";
import { subscriptionEvent } from "../tests/fixtures/event.ts";
import { wireEvent } from "./targets.ts";

const TOGETHER = 50;

/**
 * Events a second through `apply_billing_events` straight in Postgres, fifty a
 * call over two connections: as many as there are cores, and nothing between.
 */
export async function measureSqlCeiling(
  databaseUrl: string,
  { seconds, subscriptions, connections = 2 }: {
    seconds: number;
    subscriptions: readonly string[];
    connections?: number;
  },
): Promise<number> {
  const run = crypto.randomUUID().slice(0, 8);
  const template = wireEvent(
    subscriptionEvent("customer.subscription.updated", {
      previous: { status: "trialing" },
    }),
  );
  const start = Math.floor(Date.now() / 1000) - 3600;
  let sent = 0;
  const batch = () =>
    Array.from({ length: TOGETHER }, () => {
      const i = sent++;
      const created = start + Math.floor(i / subscriptions.length);
      return {
        ...template,
        event_id: `evt_${run}_${i}`,
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
        await sql`
          select place, outcome
          from public.apply_billing_events(${sql.json(batch() as never)})`;
      }
    }));
    return sent / ((performance.now() - began) / 1000);
  } finally {
    await sql.end();
  }
}
