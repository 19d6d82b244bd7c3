import fc from "fast-check";
import type { Sql } from "postgres";

/** Any event of one of three subscriptions: two share a customer, one is of provider b. */
const anyEvent = fc.record({
  kind: fc.constantFrom(
    "creation",
    "update",
    "update",
    "update",
    "deletion",
    "opening_update",
    "payment_failed",
    "checkout",
  ),
  of: fc.nat({ max: 2 }),
  /** Seconds; few, so that some are the same. */
  at: fc.option(fc.integer({ min: 0, max: 5 }), { freq: 4, nil: undefined }),
  status: fc.constantFrom("active", "past_due", "unpaid", "trialing"),
  was: fc.option(fc.constantFrom("active", "past_due", "unpaid")),
  namesAccount: fc.boolean(),
  isWhole: fc.boolean(),
  invoice: fc.constantFrom("in_1", "in_2"),
});
export type AnyEvent = typeof anyEvent extends fc.Arbitrary<infer T> ? T
  : never;

/** The creations come first: without them, most others fail. */
export const anyEvents = fc.array(anyEvent, {
  minLength: 2,
  maxLength: 12,
  size: "max",
}).map((all) => {
  const births = [0, 1, 2].map((of) => ({
    ...all[0]!,
    of,
    kind: "creation" as const,
    namesAccount: true,
  }));
  return [...births, ...all];
});

export function wireOf(
  event: AnyEvent,
  { prefix, i }: { prefix: string; i: number },
) {
  const { kind, of, at, status, was, namesAccount, isWhole, invoice } = event;
  const isChange = /creation|update/.test(kind) ||
    kind === "deletion" && isWhole;
  return {
    provider: of === 0 ? "b" : "a",
    event_id: `${prefix}_${i}`,
    type: kind,
    kind,
    occurred_at: at === undefined
      ? null
      : new Date(1.6e12 + at * 1000).toISOString(),
    subscription_id: kind === "checkout" ? null : `${prefix}_sub${of}`,
    account_id: namesAccount || kind === "checkout"
      ? `${prefix}_acc${i}`
      : null,
    report: {
      customer_id: `${prefix}_cus${Math.min(of, 1)}`,
      ...(isChange && { plan_id: `plan_${i}`, provider_status: status }),
    },
    previous: kind === "update" && was !== null
      ? { provider_status: was }
      : null,
    payment: kind === "payment_failed"
      ? { invoice_id: `${prefix}_${invoice}`, once_per_invoice: true }
      : { kind: kind === "deletion" ? "ended" : "recovered" },
  };
}

/** Returns all rows but grants that have a prefix in their IDs, without that. */
export async function rowsOf(prefix: string, sql: Sql): Promise<string> {
  const [row] = await sql<{ rows: string }[]>`
    select jsonb_build_object(
      'records', (
        select jsonb_agg(to_jsonb(s) order by s.id) from billing.subscriptions s
        where starts_with(s.id, ${prefix})
      ),
      'outcomes', (
        select jsonb_agg(jsonb_build_array(p.event_id, p.outcome) order by p.event_id)
        from billing.processed_events p where starts_with(p.event_id, ${prefix})
      ),
      'customers', (
        select jsonb_agg(jsonb_build_array(c.customer_id, c.account_id) order by c.customer_id)
        from billing.customers c where starts_with(c.customer_id, ${prefix})
      ),
      'notifications', (
        select jsonb_agg(jsonb_build_array(n.event_id, n.kind, n.account_id) order by n.event_id)
        from billing.notifications n where starts_with(n.event_id, ${prefix})
      )
    )::text as rows`;

  // The times at which events were handled.
  const now = RegExp(`"${new Date().getUTCFullYear()}-[^"]*"`, "g");
  return row!.rows.replaceAll(prefix, "").replaceAll(now, '"now"');
}
